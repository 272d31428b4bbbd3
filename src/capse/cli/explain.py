"""capse explain: what speaks for a prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from capse.cli.options import AsJson, Device, Run, command_app
from capse.cli.output import echo, echo_json

if TYPE_CHECKING:
    from capse.experiments.removal import Removed
    from capse.graph.link_prediction.explanation import Explanation
    from capse.graph.link_prediction.predictor import LinkPredictor
    from capse.graph.refinement.reasons import Moved

app = command_app("What speaks for a prediction: dimensions and near facts.")

_STRONGEST = 8  # dimensions that are listed


@app.command()
def explain(
    run: Run,
    head: Annotated[str, typer.Option(help="The head, by label or name.")],
    relation: Annotated[str, typer.Option(help="The relation, by label or name.")],
    tail: Annotated[str, typer.Option(help="The tail, by label or name.")],
    asked: Annotated[
        Literal["head", "tail"],
        typer.Option(metavar="head|tail", help="Which side was asked for; reciprocal models score each apart."),
    ] = "tail",
    most: Annotated[int, typer.Option(min=0, help="How many facts of each kind to show.")] = 5,
    removals: Annotated[
        bool, typer.Option("--removals", help="Estimate which training facts the answer hangs on.")
    ] = False,
    without: Annotated[
        tuple[str, str, str] | None,
        typer.Option(
            metavar="HEAD RELATION TAIL", help="Train again without this training fact, and say what changes."
        ),
    ] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Show what in the graph speaks for (head, relation, tail): the dimensions that carry its score, and the training
    facts that lie near it.

    It describes what the model computed. It is no proof that the fact holds. --removals estimates without which facts
    the answer would be less probable; --without tells what really happens, by training twice: without the fact, and
    without one drawn by chance, since any change of the data moves something.
    """
    from capse.graph.link_prediction.predictor import LinkPredictor

    predictor = LinkPredictor.load(run, device)
    why = predictor.explain(head=head, relation=relation, tail=tail, asked=asked, most=most, removals=removals)
    removed = _removed(predictor, (head, relation, tail), without, asked) if without else None
    if as_json:
        echo_json(why.to_json() | ({"removed": removed.to_json()} if removed else {}))
    elif removed:
        echo("\n".join(_removal_lines(removed)))
    else:
        echo(_in_words(why))


def _removed(
    predictor: LinkPredictor, triple: tuple[str, str, str], fact: tuple[str, str, str], asked: Literal["head", "tail"]
) -> Removed:
    from capse.cli.display import TrainingProgress
    from capse.experiments.recipe import Recipe
    from capse.experiments.removal import check_retrains, try_removal

    recipe = Recipe.from_mapping(check_retrains(predictor).read_recipe())
    with TrainingProgress(recipe.training.epochs, recipe.validation.metric) as progress:
        return try_removal(predictor, triple, fact, asked, listener=progress)


def _removal_lines(removed: Removed) -> list[str]:
    """Before, without the fact, and without another one."""
    rows = (
        ("as it is", removed.before),
        (f"without {removed.fact}", removed.without),
        (f"without {removed.other}, drawn by chance", removed.without_other),
    )
    return [
        f"rank {one.rank:,.10g}, score {one.score:.4f}, log share {one.log_share:.3f}: {what}" for what, one in rows
    ]


def _in_words(why: Explanation) -> str:
    fact = why.fact
    probability = "" if why.probability is None else f", probability {why.probability:.3f}"
    lines = [str(fact), f"score {why.score:.4f}{probability}"]
    lines.append(f"a known fact ({why.known})" if why.known else "not a known fact")
    for name, count in ((fact.head_name, why.head_facts), (fact.tail_name, why.tail_facts)):
        lines.append(
            f"{name}: {count:,} training facts" if count else f"{name}: no training fact; its vector is a guess"
        )
    if why.moved is not None:
        lines += ["", *_motifs(why.moved)]
    if why.dimensions is None:
        lines += ["", "this model's score is no sum over dimensions"]
    else:
        lines += ["", f"dimensions that carry it (they sum to {why.dimensions.of}, {why.dimensions.total:.4f})"]
        as_in = {one.dimension: "; ".join(map(str, one.like)) for one in why.carriers if one.like}
        lines += [
            f"  {value:+.4f}  dimension {i}{f', as in {as_in[i]}' if i in as_in else ''}"
            for i, value in why.dimensions.strongest(_STRONGEST)
        ]
    if why.nearest:
        lines += ["", "nearest training facts of this relation, by similarity"]
        lines += [f"  {near.similarity:.3f}  {near.fact}" for near in why.nearest]
    if why.rules:
        lines += ["", "rules of the graph that say it, by how often they are right"]
        for support in why.rules:
            cases = f"{support.confidence:.0%} of {support.support / support.confidence:,.0f} cases"
            lines.append(f"  {cases}: {support.rule}; here {'; '.join(map(str, support.facts))}")
    if why.removals:
        lines += ["", "without which the answer would be less probable, by an estimate of the change of its logarithm"]
        lines += [f"  {one.change:+.3f}  {one.fact}" for one in why.removals]
    if why.links:
        lines += ["", "other training facts between the two"]
        lines += [f"  {link}" for link in why.links]
    if why.paths:
        lines += ["", "joined to both by training facts"]
        lines += [f"  {path.name}: {path.from_head}; {path.to_tail}" for path in why.paths]
    return "\n".join([*lines, "", why.note])


def _motifs(moved: Moved) -> list[str]:
    """What refining did to the answer."""
    counted = "" if moved.keep == 1 else f", which counts {moved.keep:.2f} times"
    lines = [f"the run that was refined scores it {moved.score:.4f}{counted}; what the motifs around it add:"]
    if moved.first:
        lines.append("  it comes first, since the relation goes both ways and is known the other way")
    if not moved.among_best:
        lines.append("  nothing: it is not among the question's best answers, which alone may change places")
    return lines + [f"  {reason}" for reason in moved.motifs]
