"""What the paper prints (Nguyen et al., NAACL 2019, sections 3 and 4), as fractions; None where it prints a dash."""

from __future__ import annotations

from capse_paper.plans.graphs import FB15K237, WN18RR

Figures = dict[str, float | None]

DATASETS = {WN18RR: "WN18RR", FB15K237: "FB15k-237"}

# Table 1, and the relation categories of section 3.2
STATISTICS: dict[str, dict[str, int]] = {
    WN18RR: {"entities": 40_943, "relations": 11, "train": 86_835, "valid": 3_034, "test": 3_134},
    FB15K237: {"entities": 14_541, "relations": 237, "train": 272_115, "valid": 17_535, "test": 20_466},
}
CATEGORY_RELATIONS = {FB15K237: {"1-1": 17, "1-M": 26, "M-1": 81, "M-M": 113}}
CATEGORY_SHARES = {FB15K237: {"1-1": 0.009, "1-M": 0.063, "M-1": 0.205, "M-M": 0.723}}


def _figures(mr: float | None, mrr: float | None, hits_at_10: float | None) -> Figures:
    return {"mr": mr, "mrr": mrr, "hits@10": hits_at_10}


# Table 2, in its order
RESULTS: dict[str, dict[str, Figures]] = {
    "DISTMULT": {WN18RR: _figures(5110, 0.425, 0.491), FB15K237: _figures(254, 0.241, 0.419)},
    "ComplEx": {WN18RR: _figures(5261, 0.444, 0.507), FB15K237: _figures(339, 0.247, 0.428)},
    "ConvE": {WN18RR: _figures(4187, 0.433, 0.515), FB15K237: _figures(244, 0.325, 0.501)},
    "KBGAN": {WN18RR: _figures(None, 0.213, 0.481), FB15K237: _figures(None, 0.278, 0.458)},
    "M3GM": {WN18RR: _figures(1864, 0.311, 0.533), FB15K237: _figures(None, None, None)},
    "TransE": {WN18RR: _figures(743, 0.245, 0.560), FB15K237: _figures(347, 0.294, 0.465)},
    "ConvKB": {WN18RR: _figures(763, 0.253, 0.567), FB15K237: _figures(254, 0.418, 0.532)},
    "CapsE": {
        WN18RR: {**_figures(719, 0.415, 0.560), "hits@1": 0.337},
        FB15K237: {**_figures(303, 0.523, 0.593), "hits@1": 0.489},
    },
}
# What belongs beside a row, as the method's own authors print it (KBGAN: Cai and Wang, NAACL 2018)
_REFINED = ("ComplEx, rank 64", "ComplEx", "CapsE")
_NOT_PRINTED = {data: _figures(None, None, None) for data in DATASETS}
BESIDE: dict[str, dict[str, dict[str, Figures]]] = {
    "KBGAN": {
        "TransE before KBGAN": {WN18RR: _figures(None, 0.186, 0.459)},
        "TransD before KBGAN": {FB15K237: _figures(None, 0.245, 0.427)},
    },
    "CapsE": {"Capsules from ComplEx": {WN18RR: _figures(None, None, None)}},  # ours: nobody prints it
    "M3GM": dict.fromkeys(
        ("M3GM's association", "ComplEx, rank 64", *(f"M3GM over {model}" for model in _REFINED)), _NOT_PRINTED
    ),
}

# Table 3: Hits@10 on WN18RR's validation set, by routing iterations m and epoch
EPOCHS = (10, 20, 30, 40, 50)
ROUTING: dict[int, tuple[float, ...]] = {
    1: (0.4837, 0.5260, 0.5314, 0.5333, 0.5321),
    3: (0.4778, 0.5234, 0.5293, 0.5299, 0.5286),
    5: (0.4703, 0.5225, 0.4580, 0.4599, 0.4576),
    7: (0.4046, 0.4536, 0.4579, 0.4585, 0.4593),
}


def _pairs(hits_at_10: dict[str, tuple[float, ...]], mrr: dict[str, tuple[float, ...]]) -> dict[str, list[Figures]]:
    return {
        model: [{"hits@10": h, "mrr": m} for h, m in zip(hits_at_10[model], mrr[model], strict=True)] for model in mrr
    }


# Figure 2: FB15k-237 by side and relation category (1-1, 1-M, M-1, M-M)
BY_CATEGORY: dict[str, dict[str, list[Figures]]] = {
    "head": _pairs(
        {"CapsE": (0.4740, 0.4772, 0.5978, 0.5728), "ConvKB": (0.5156, 0.5715, 0.4951, 0.4885)},
        {"CapsE": (0.447, 0.281, 0.594, 0.512), "ConvKB": (0.465, 0.368, 0.476, 0.373)},
    ),
    "tail": _pairs(
        {"CapsE": (0.4792, 0.1748, 0.8026, 0.5859), "ConvKB": (0.5000, 0.1137, 0.8358, 0.5346)},
        {"CapsE": (0.446, 0.168, 0.693, 0.516), "ConvKB": (0.455, 0.096, 0.719, 0.394)},
    ),
}

# Figure 3: WN18RR by relation, with the share of the test triples
SHARES = {
    "hypernym": 0.399,
    "derivationally_related_form": 0.343,
    "member_meronym": 0.081,
    "has_part": 0.055,
    "instance_hypernym": 0.039,
    "synset_domain_topic_of": 0.036,
    "also_see": 0.018,
    "verb_group": 0.012,
    "member_of_domain_region": 0.008,
    "member_of_domain_usage": 0.008,
    "similar_to": 0.001,
}
BY_RELATION: dict[str, list[Figures]] = _pairs(
    {
        "CapsE": (0.283, 0.972, 0.269, 0.375, 0.600, 0.474, 0.741, 0.974, 0.365, 0.396, 1.0),
        "ConvKB": (0.294, 0.967, 0.346, 0.355, 0.566, 0.482, 0.714, 0.974, 0.288, 0.438, 1.0),
    },
    {
        "CapsE": (0.112, 0.888, 0.131, 0.163, 0.349, 0.271, 0.595, 0.738, 0.151, 0.183, 0.500),
        "ConvKB": (0.114, 0.429, 0.184, 0.126, 0.355, 0.333, 0.239, 0.368, 0.159, 0.290, 0.294),
    },
)
# Table 4: SEARCH17's test set
SEARCH: dict[str, Figures] = {
    "se": {"mrr": 0.559, "hits@1": 0.385},
    "ci": {"mrr": 0.597, "hits@1": 0.416},
    "sp": {"mrr": 0.631, "hits@1": 0.452},
    "transe-vu2017": {"mrr": 0.645, "hits@1": 0.481},  # as Vu et al. (2017) report it, then the authors' own
    "transe": {"mrr": 0.669, "hits@1": 0.509},
    "convkb": {"mrr": 0.750, "hits@1": 0.599},
    "capse": {"mrr": 0.766, "hits@1": 0.621},
}
FILTERS = (50, 100, 200, 400, 500)  # N in Figure 4, whose curves are not printed as numbers
SYMMETRIC = ("also_see", "similar_to", "verb_group", "derivationally_related_form")


def by_category(model: str, side: str, category: str) -> Figures:
    """What Figure 2 shows.

    >>> by_category("CapsE", "head", "M-1")
    {'hits@10': 0.5978, 'mrr': 0.594}
    """
    return BY_CATEGORY[side][model][list(CATEGORY_SHARES[FB15K237]).index(category)]


def by_relation(model: str, relation: str) -> Figures:
    """What Figure 3 shows.

    >>> by_relation("ConvKB", "verb_group")
    {'hits@10': 0.974, 'mrr': 0.368}
    """
    return BY_RELATION[model][list(SHARES).index(relation)]
