"""The records of the datasets that have a name: where they are, what is known of their bytes, their sizes and licence.

Sizes are those that a dataset's authors state. A checksum stands here only for bytes that were seen; sets without one
are *untried*: their place and sizes are published, and the first download is trusted and remembered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_SPLITS = ("train.txt", "valid.txt", "test.txt")
_UNSTATED = "not stated"


@dataclass(frozen=True)
class Benchmark:
    """A public dataset: where it is, its checksums, and the sizes that its authors state (None: they do not)."""

    name: str
    url: str  # of an archive, or of a folder of plain files; a folder's ends in /
    sha256: str | tuple[str, ...]  # of the archive, or of each file of a folder; empty where no byte was ever seen
    entities: int
    relations: int | None
    train: int
    valid: int | None
    test: int | None
    members: tuple[str, ...] = _SPLITS  # train, valid and test in the archive or folder; some sets have no others
    licence: str = _UNSTATED

    @property
    def is_folder(self) -> bool:
        return self.url.endswith("/")

    @property
    def tried(self) -> bool:
        """Whether its bytes were seen, so that what is downloaded can be compared with them."""
        return bool(self.sha256)

    @property
    def files(self) -> tuple[str, ...]:
        """What its members are called here: train.txt, valid.txt, test.txt."""
        return _SPLITS[: len(self.members)]

    @property
    def sizes(self) -> dict[str, int | None]:
        """Its published counts by name."""
        return {key: getattr(self, key) for key in ("entities", "relations", "train", "valid", "test")}


def _records() -> Iterator[Benchmark]:
    conve = "https://github.com/TimDettmers/ConvE/raw/master"
    yield Benchmark(
        name="wn18rr",
        url=f"{conve}/WN18RR.tar.gz",
        sha256="1eb9152f804c140d163462c0d49f65e5a0b30ab5fbb375c5e3353c11a6249060",
        entities=40_943,
        relations=11,
        train=86_835,
        valid=3_034,
        test=3_134,
        licence="WordNet 3.0 licence",
    )
    yield Benchmark(
        name="fb15k-237",
        url=f"{conve}/FB15k-237.tar.gz",
        sha256="311df7930f842a02979eaa7a802484a6afe62303c07f915f1e6edbc30cbe05e8",
        entities=14_541,
        relations=237,
        train=272_115,
        valid=17_535,
        test=20_466,
        licence="CC BY 2.5 (Freebase)",
    )
    yield from _small()
    yield from _codex()
    yield Benchmark(
        name="yago3-10",
        url=f"{conve}/YAGO3-10.tar.gz",
        sha256="",
        entities=123_182,
        relations=37,
        train=1_079_040,
        valid=5_000,
        test=5_000,
        licence="CC BY 3.0 (YAGO)",
    )
    yield Benchmark(
        name="nell-995",
        # the split of Nathani et al. (ACL 2019), which later papers compare by
        url="https://raw.githubusercontent.com/deepakn97/relationPrediction/"
        "8d4f27293eafbe491ef5455aaec2c4b968cc99cf/data/NELL-995/",
        sha256="",
        entities=75_492,
        relations=200,
        train=149_678,
        valid=543,
        test=3_992,
    )
    yield Benchmark(
        name="wikidata5m",
        url="https://zenodo.org/record/5546383/files/wikidata5m_transductive.tar.gz",
        sha256="",
        entities=4_594_485,
        relations=822,
        train=20_614_279,
        valid=5_163,
        test=5_133,
        members=tuple(f"wikidata5m_transductive_{name}" for name in _SPLITS),
        licence="CC0 (Wikidata)",
    )
    yield from _ilpc()
    yield from _grail()


def _small() -> Iterator[Benchmark]:
    """Three small graphs as PyKEEN ships them; the checksums are of the files in its release 1.11.1."""
    pykeen = "https://raw.githubusercontent.com/pykeen/pykeen/v1.11.1/src/pykeen/datasets"
    yield Benchmark(
        name="kinship",
        url=f"{pykeen}/kinships/",
        sha256=(
            "738612111a6acf0e39662bde24c7e72a4d1edf20931beea077da367dda689731",
            "c56f8630a583178b1e569f11a64aa535ae1ce0b0912d8b1e24716be2b37f04da",
            "05e5733265761d55be9c05bfaff5a8d0808df46f9c1e9d66cc3f2fe114e43d88",
        ),
        entities=104,
        relations=25,
        train=8_544,
        valid=1_068,
        test=1_074,
    )
    yield Benchmark(
        name="umls",
        url=f"{pykeen}/umls/",
        sha256=(
            "873ef4925516b83e7f6f8cc02b4be51d848828710a7f65a956f0ac4a9e452f35",
            "025c98f8a4891e2a6582ec5b40ee0d904031edad9c52554522f4b7904820c98e",
            "a7eb529a3d2810fcc96341ccc97c625a5e202f8389673aa6bd317eeebbb79014",
        ),
        entities=135,
        relations=46,
        train=5_216,
        valid=652,
        test=661,
    )
    yield Benchmark(
        name="nations",
        url=f"{pykeen}/nations/",
        sha256=(
            "0830fa9da8e5bba2ccdaa45b7bdc9130451ba66b09ff2708f35fccaf82473e57",
            "2b337a62e51a2f45c283eac98a70d21b7e0e102136be1539b2a52c652a7b0530",
            "3971085165b47b6aeaec68058c6d8d98b3005e929db81268410b95ae4db770ab",
        ),
        entities=14,
        relations=55,
        train=1_592,
        valid=199,
        test=201,
    )


def _codex() -> Iterator[Benchmark]:
    """Safavi and Koutra, CoDEx: A Comprehensive Knowledge Graph Completion Benchmark, EMNLP 2020."""
    folder = "https://raw.githubusercontent.com/tsafavi/codex/e805ea2f512d7f0f8e44f213bc4db51dac0de118/data/triples"
    for size, entities, relations, train, valid, test in (
        ("s", 2_034, 42, 32_888, 1_827, 1_828),
        ("m", 17_050, 51, 185_584, 10_310, 10_311),
        ("l", 77_951, 69, 551_193, 30_622, 30_622),
    ):
        url = f"{folder}/codex-{size}/"
        yield Benchmark(f"codex-{size}", url, "", entities, relations, train, valid, test, licence="MIT")


def _ilpc() -> Iterator[Benchmark]:
    """Galkin et al., An Open Challenge for Inductive Link Prediction on Knowledge Graphs, 2022.

    A set is two graphs without a common entity: one to train on, and ``-ind``, whose facts a model is given later.
    """
    folder = "https://raw.githubusercontent.com/pykeen/ilpc2022/35a5d5e1f785ada7a964597bea221eb81a595622/data"
    first, later = ("train.txt",), ("inference.txt", "inference_validation.txt", "inference_test.txt")
    small, large = f"{folder}/small/", f"{folder}/large/"
    yield Benchmark("ilpc-small", small, "", 10_230, 96, 78_616, 0, 0, first, "MIT")
    yield Benchmark("ilpc-small-ind", small, "", 6_653, None, 20_960, 2_908, 2_902, later, "MIT")
    yield Benchmark("ilpc-large", large, "", 46_626, 130, 202_446, 0, 0, first, "MIT")
    yield Benchmark("ilpc-large-ind", large, "", 29_246, None, 77_044, 10_179, 10_184, later, "MIT")


# Of each version: entities, relations and facts to train on; then entities, facts, valid and test of the other graph.
_GRAIL = {
    ("wn18rr", "WN18RR"): (
        (2_746, 9, 5_410, 922, 1_618, 185, 188),
        (6_954, 10, 15_262, 2_757, 4_011, 411, None),  # sources differ on the last
        (12_078, 11, 25_901, 5_084, 6_327, 538, 605),
        (3_861, 9, 7_940, 7_084, 12_334, 1_394, 1_429),
    ),
    ("fb15k-237", "fb237"): (
        (1_594, 180, 4_245, 1_093, 1_993, 206, 205),
        (2_608, 200, 9_739, 1_660, 4_145, 469, 478),
        (3_668, 215, 17_986, 2_501, 7_406, 866, 865),
        (4_707, 219, 27_203, 3_051, 11_714, 1_416, 1_424),
    ),
    ("nell-995", "nell"): (
        (3_103, 14, 4_687, 225, 833, 101, 100),
        (2_564, 88, 8_219, 2_086, 4_586, 459, 476),
        (4_647, 142, 16_393, 3_566, 8_048, 811, 809),
        (2_092, 76, 7_546, 2_795, 7_073, 716, 731),
    ),
}


def _grail() -> Iterator[Benchmark]:
    """Teru et al., Inductive Relation Prediction by Subgraph Reasoning, ICML 2020; pairs of graphs like ILPC's."""
    folder = "https://raw.githubusercontent.com/kkteru/grail/master/data"
    for (family, stem), versions in _GRAIL.items():
        for version, (entities, relations, train, others, facts, valid, test) in enumerate(versions, start=1):
            name, url = f"grail-{family}-v{version}", f"{folder}/{stem}_v{version}"
            yield Benchmark(name, f"{url}/", "", entities, relations, train, None, None)
            yield Benchmark(f"{name}-ind", f"{url}_ind/", "", others, None, facts, valid, test)


BENCHMARKS = {benchmark.name: benchmark for benchmark in _records()}
