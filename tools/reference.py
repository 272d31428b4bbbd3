"""The pages of the reference that come from the code: settings, models, commands and public names.

mkdocs asks for them when it builds the site (tools/site.py). A page here is a list of directives; mkdocstrings fills
them from docstrings and from the comments beside fields, typer writes the command line's.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from typing import Any, get_type_hints

import typer
import typer.cli
import yaml

import capse
from capse.cli import app
from capse.experiments.recipe import Recipe
from capse.experiments.search.recipe import SearchRecipe
from capse.experiments.shipped import Kind, shipped
from capse.graph.refinement.settings import Refinement
from capse.models import BASELINES, MODELS
from capse.search.ingest.settings import IngestSettings
from capse.search.logs.simulation import SimulationSettings

RECIPES = """\
# Recipes

A recipe holds every setting of a run. It is YAML with the sections below; a key that is left out has its default, and
an unknown key is an error that names the nearest known one. On the command line `--set section.key=value` changes one
setting. The resolved recipe, defaults included, is saved with the run as `recipe.yaml`.

```yaml
data: countries
model: {name: transe, dim: 50, norm: 1}
training: {epochs: 100, batch_size: 128, learning_rate: 5.0e-3}
loss: {name: margin, margin: 5.0}
validation: {every: 10, metric: mrr}
```

`data` is a dataset's name or a folder; `--data` on the command line takes precedence. `model.name` names the model, and
the other keys of that section are [its settings](models.md)."""

SEARCH_RECIPES = """\
# Search recipes

What `capse search train` is told: like [a graph's recipe](recipes.md), with the sections below. `model.dim` is the
length of the vectors: it is set by itself for topics and `lsa`. `training`, `loss` and `optimizer` are those of
[a graph's recipe](recipes.md), and [the models' settings](models.md) those of the model; `loss.name` may not be `bce`
or `kl`."""

REFINEMENT = """\
`capse refine` takes a recipe of its own: this section, and `training`, `loss`, `optimizer` and `validation` as above.
An example of its training is a question, `loss.margin` is the γ of its hinge, and the optimiser is Adagrad."""

MODELS_PAGE = """\
# Models

A score is higher for more plausible triples. *h*, *r* and *t* are the vectors of head, relation and tail. The settings
are keys of a recipe's section `model`, and the arguments of a class with the model's name in Python."""

COMMAND_LINE = """\
# Command line

Standard output carries the answer, standard error the progress and the log. Exit status: 0 done; 2 the input is wrong,
said in one line that names the place and the remedy; 130 stopped by Ctrl-C; 1 anything else. Every command has
`--help`."""

PYTHON = """\
# Python

`import capse` gives the names below; they are imported when they are first used. What is not listed here may change
without notice. Settings are on pages of their own: [those of a recipe](recipes.md), [those of the models](models.md)
and [those of search](search-recipes.md)."""


# What a command takes with --set that is in no recipe.
SETTINGS = {"refinement": Refinement, "ingest": IngestSettings, "simulation": SimulationSettings}


def recipes_page() -> Iterator[str]:
    """Every section of a recipe."""
    yield RECIPES
    for name, settings in _sections(Recipe).items():
        yield f"## {name}"
        yield _directive(settings)
    yield "## Shipped recipes"
    yield "`capse train NAME` takes one of these by name; `--model NAME` without a recipe takes the one of that name."
    yield _shipped("recipe")
    yield "## refinement"
    yield REFINEMENT
    yield _directive(Refinement)
    yield _shipped("refinement")


def search_recipes_page() -> Iterator[str]:
    """The sections of a search recipe that a graph's does not have."""
    yield SEARCH_RECIPES
    for name, settings in _sections(SearchRecipe).items():
        if settings not in _sections(Recipe).values():
            yield f"## {name}"
            yield _directive(settings)
    yield "## Shipped recipes"
    yield "`capse search train NAME` takes one of these by name; `--method NAME` takes the one of that name."
    yield _shipped("search recipe")
    yield "## Before the training"
    yield "`capse search ingest` and `capse search simulate` take settings of their own with `--set`."
    for name, settings in SETTINGS.items():
        yield f"### {name}"
        yield _directive(settings)


def models_page() -> Iterator[str]:
    """Every model: its score, where it comes from, its settings."""
    yield MODELS_PAGE
    for name, scorer in (*MODELS.items(), *BASELINES.items()):
        yield f"## {name}"
        yield inspect.getdoc(scorer) or ""
        yield f"From {scorer.citation}."
        yield _directive(scorer.Settings)


def command_line_page() -> Iterator[str]:
    """Every command with its arguments and options."""
    yield COMMAND_LINE
    group: Any = typer.main.get_command(app)
    context = typer.Context(group, info_name="capse")
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = typer.Context(command, info_name=name, parent=context)
        yield typer.cli.get_docs_for_click(obj=command, ctx=inner, indent=1, name=name, call_prefix="capse").replace(
            ".*", r".\*"
        )


def python_page() -> Iterator[str]:
    """Every public name that is not a setting."""
    yield PYTHON
    settings = settings_classes()
    names = [name for name in capse.__all__ if name not in ("__version__", "errors")]
    for name in sorted(names, key=lambda name: (name[0].isupper(), name.lower())):
        if getattr(capse, name) not in settings:
            yield f"::: capse.{name}"
    yield "### errors"
    yield "Every exception that a user can put right."
    yield "```text\n" + (inspect.getdoc(capse.errors) or "").split("\n\n", 1)[1].strip() + "\n```"


def settings_classes() -> set[Any]:
    """Every class of settings that a recipe or a command's --set can fill."""
    sections = {*_sections(Recipe).values(), *_sections(SearchRecipe).values()}
    return {*sections, *SETTINGS.values(), *(model.Settings for model in (*MODELS.values(), *BASELINES.values()))}


def _sections(recipe: Any) -> dict[str, Any]:
    """The sections of a recipe but for the model's, and their classes."""
    hints = get_type_hints(recipe)
    return {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint) and name != "model"}


def _directive(settings: Any) -> str:
    """A class of settings: its sentence and its table, without the methods."""
    flags = ("members", "inherited_members", "separate_signature", "show_bases", "show_signature")
    options = "{" + ", ".join(f"{flag}: false" for flag in flags) + "}"
    public = f"capse.{settings.__qualname__}" if settings.__qualname__ in capse.__all__ else None
    return f"::: {public or f'{settings.__module__}.{settings.__qualname__}'}\n    options: {options}"


def _shipped(kind: Kind) -> str:
    rows = ["| recipe | model | what it is |", "| --- | --- | --- |"]
    for name, recipe in shipped(kind).items():
        model = yaml.safe_load(recipe.text).get("model")
        of = f"`{model['name']}`" if model else "any"
        rows.append(f"| `{name}` | {of} | {recipe.about} |")
    return "\n".join(rows)


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "reference/recipes.md": recipes_page,
    "reference/search-recipes.md": search_recipes_page,
    "reference/models.md": models_page,
    "reference/command-line.md": command_line_page,
    "reference/python.md": python_page,
}


def render(name: str) -> str:
    """The Markdown of a page."""
    return "\n\n".join(PAGES[name]()) + "\n"
