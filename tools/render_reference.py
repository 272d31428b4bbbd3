"""Write docs/reference/ from the code: python tools/render_reference.py

Settings come from the dataclasses and the comments beside their fields, commands from the command line itself, Python
names from ``capse.__all__`` and their docstrings. What a comment does not say is said in ``MEANINGS``. A test fails
while the pages are out of date.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import re
import sys
import textwrap
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
import yaml

import capse
from capse.cli import COMMANDS
from capse.experiments.recipe import Recipe, shipped_recipes
from capse.experiments.search.recipe import SearchRecipe, shipped_search_recipes
from capse.models import MODELS, ModelSettings
from capse.search.ingest.settings import IngestSettings
from capse.search.run import METHODS
from capse.search.simulate import SimulationSettings

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
NOTICE = "<!-- Written by tools/render_reference.py. Do not edit: change the code, or the tool, and run it again. -->"

# What the code says elsewhere than beside the field: section.key, or the class for a model's setting, and its meaning.
MEANINGS = {
    "CapsESettings.filter_start": "`normal`: truncated normal of deviation 0.1; `translation`: all (0.1, 0.1, −0.1)",
    "CapsESettings.variant": "the paper's form, or that of its authors' program",
    "ConvESettings.hidden_dropout": "drops entries of the hidden layer",
    "ConvESettings.input_dropout": "drops entries of the picture",
    "ConvKBSettings.filter_start": "`translation`: all (0.1, 0.1, −0.1), TransE's *h* + *r* − *t*; `normal`: truncated "
    "normal of deviation 0.1",
    "loss.name": "`softplus` is the paper's, `squared_softplus` its authors' program's, `margin` TransE's; `softmax` "
    "goes with any sampler, `bce` and `kl` with `negatives.sampler=all` only",
    "negatives.count": "how many; `all` does not look at it",
    "negatives.sampler": "`all` goes with `loss.name` `softmax`, `bce` or `kl`, the others with any but the last two",
    "optimizer.name": "`adamw` decays weights apart from the gradient, the others add the decay to it",
    "training.batch_size": "examples in a step: triples, or with `loss.name` `bce` or `kl` questions",
    "training.learning_rate": "of all parameters",
    "training.precision": "`tf32`: faster matrix products on GPUs that have it; `bf16`: torch's autocast to bfloat16",
    "training.seed": "fixes everything that is drawn",
    "training.tensorboard": "also write events into the run's `tensorboard/`; needs the extra `tensorboard`",
}

# The settings that a command takes with --set beside its options.
SETTINGS = {
    "search ingest": (IngestSettings, "ingest"),
    "search simulate": (SimulationSettings, "simulation"),
}

RECIPES = """\
A recipe holds every setting of a run. It is YAML with the sections below; a key that is left out has its default, and
an unknown key is an error that names the nearest known one. On the command line `--set section.key=value` changes one
setting, in Python `overrides=["section.key=value"]` does. The resolved recipe, defaults included, is saved with the run
as `recipe.yaml`.

```yaml
data: countries
model: {name: transe, dim: 50, norm: 1}
training: {epochs: 100, batch_size: 128, learning_rate: 5.0e-3}
loss: {name: margin, margin: 5.0}
validation: {every: 10, metric: mrr}
```

## data

A dataset's name or a folder, at the top level of the recipe. `--data` on the command line takes precedence."""

SHIPPED = "`capse train NAME` takes one of these by name; `--model NAME` without a recipe takes the one of that name."

SEARCH_RECIPES = """\
What `capse search train` is told: like [a graph's recipe](recipes.md), with other sections. `model.name` is one of
{methods}, and `model.dim` the length of the vectors: it is set by itself for topics and `lsa`. The settings of the
models, and of `training`, `loss` and `optimizer`, are those of [a graph's recipe](recipes.md); `loss.name` may not be
`bce` or `kl`."""

SEARCH_SHIPPED = "`capse search train NAME` takes one of these by name; `--method NAME` takes the one of that name."

COMMAND_LINE = """\
Standard output carries the answer, standard error the progress and the log. Exit status: 0 done; 2 the input is wrong,
said in one line that names the place and the remedy; 130 stopped by Ctrl-C; 1 anything else. Every command has
`--help`."""

PYTHON = """\
`import capse` gives the names below; they are imported when they are first used. What is not listed here may change
without notice."""


def recipes_page() -> str:
    """Every section and key of a recipe."""
    sections = {field.name: field for field in dataclasses.fields(Recipe) if field.name not in ("data", "model_name")}
    hints = get_type_hints(Recipe)
    named = ", ".join(f"`{name}`" for name in MODELS)
    parts = [
        "# Recipes",
        NOTICE,
        RECIPES,
        "## model",
        f"`model.name` is one of {named}; `capse` if it is not given.",
        *_model_tables(),
    ]
    for name in sections:
        if name == "model":
            continue
        parts += [f"## {name}", _docstring(hints[name]), _settings_table(hints[name], name)]
    parts += ["## Shipped recipes", SHIPPED, _shipped("", shipped_recipes())]
    return "\n\n".join(parts) + "\n"


def search_recipes_page() -> str:
    """The sections of a search recipe that a graph's does not have."""
    named = ", ".join(f"`{name}`" for name in METHODS)
    parts = ["# Search recipes", NOTICE, SEARCH_RECIPES.format(methods=named)]
    hints = get_type_hints(SearchRecipe)
    for name in ("vectors", "profile", "shown", "validation"):
        parts += [f"## {name}", _docstring(hints[name]), _settings_table(hints[name], name)]
    parts += ["## Shipped recipes", SEARCH_SHIPPED, _shipped("search", shipped_search_recipes())]
    return "\n\n".join(parts) + "\n"


def _model_tables() -> Iterator[str]:
    users: dict[Any, list[str]] = {}
    for name, scorer in MODELS.items():
        users.setdefault(scorer.Settings, []).append(name)
    yield "Every model has these; the tables below say what else a model has, and where its defaults differ."
    yield _settings_table(ModelSettings, "model")
    inherited = [field.name for field in dataclasses.fields(ModelSettings)]
    for settings, names in users.items():
        if settings is ModelSettings:
            continue
        changed = [f for f in inherited if _default(settings, f) != _default(ModelSettings, f)]
        yield f"{', '.join(f'`{name}`' for name in names)}: {_docstring(settings)}"
        yield _settings_table(settings, "model", leave_out=[key for key in inherited if key not in changed])


def _settings_table(settings: Any, section: str, leave_out: Sequence[str] = ()) -> str:
    hints, comments = get_type_hints(settings), field_comments(settings)
    rows = []
    for field in dataclasses.fields(settings):
        if field.name in leave_out:
            continue
        own = f"{settings.__name__}.{field.name}" if section == "model" else f"{section}.{field.name}"
        meaning = "; ".join(text for text in (comments.get(field.name), MEANINGS.get(own)) if text)
        default = _default(settings, field.name)
        shown = "none" if default is None else f"`{yaml.safe_dump(default).split(chr(10))[0]}`"
        rows.append((f"`{section}.{field.name}`", _kind(hints[field.name]), shown, meaning))
    return _table(("key", "value", "default", "meaning"), rows)


def field_comments(settings: Any) -> dict[str, str]:
    """The comment at the end of each field's line or the text below it, those of base classes included."""
    comments: dict[str, str] = {}
    for base in reversed(settings.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        source = textwrap.dedent(inspect.getsource(base))
        by_line = {
            token.start[0]: token.string.removeprefix("#").strip()
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type == tokenize.COMMENT
        }
        field = ""
        for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                field = node.target.id
                if node.end_lineno in by_line:
                    comments[field] = by_line[node.end_lineno]
            elif field and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                comments[field] = " ".join(str(node.value.value).split())
    return comments


def _default(settings: Any, key: str) -> Any:
    return next(field.default for field in dataclasses.fields(settings) if field.name == key)


def _kind(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return ", ".join(f"`{option}`" for option in get_args(hint))
    if get_origin(hint) in (Union, type(int | None)):
        return " or ".join(_kind(option) for option in get_args(hint))
    names = {int: "whole number", float: "number", str: "text", bool: "`true`, `false`", type(None): "none"}
    return names[hint]


def _shipped(folder: str, names: Sequence[str]) -> str:
    rows = []
    for name in names:
        text = (ROOT / "src" / "capse" / "recipes" / folder / f"{name}.yaml").read_text(encoding="utf-8")
        about = text.splitlines()[0].removeprefix("#").strip()
        rows.append((f"`{name}`", f"`{yaml.safe_load(text)['model']['name']}`", about))
    return _table(("recipe", "model", "what it is"), rows)


def command_line_page() -> str:
    """Every command with its arguments and options."""
    return "\n\n".join(["# Command line", NOTICE, COMMAND_LINE, *_commands("capse.cli", COMMANDS)]) + "\n"


def _commands(package: str, names: Iterable[str]) -> Iterator[str]:
    """The commands of a package, those of groups within it included."""
    for name in names:
        module = import_module(f"{package}.{name}")
        path = " ".join(module.__name__.split(".")[2:])
        if hasattr(module, "COMMANDS"):
            yield from _commands(module.__name__, module.COMMANDS)
            continue
        commands = module.app.registered_commands
        for command in commands:
            own = command.name or command.callback.__name__
            yield from _command(f"{path} {own}" if len(commands) > 1 else path, command.callback)
        if path in SETTINGS:
            yield _settings_table(*SETTINGS[path])


def _command(name: str, function: Any) -> Iterator[str]:
    """What the function says that Typer makes a command of."""
    yield f"## capse {name}"
    yield _docstring(function)
    hints = get_type_hints(function, include_extras=True)
    rows = []
    for key, parameter in inspect.signature(function).parameters.items():
        kind, info = get_args(hints[key])
        if isinstance(info, typer.models.ArgumentInfo):
            shown = info.metavar or key.upper()
        else:
            # Typer keeps the first name of an annotated option where the default of others is.
            declared = [name for name in (info.default, *(info.param_decls or ())) if str(name).startswith("--")]
            option = declared[0] if declared else "--" + key.replace("_", "-")
            shown = option if kind is bool else f"{option} {info.metavar or _placeholder(kind)}"
        default = parameter.default
        if default is parameter.empty:
            said = "required"
        else:
            said = "" if default is None or default is False else f"`{default}`"
        rows.append((f"`{shown}`", said, info.help or ""))
    rows.sort(key=lambda row: row[0].startswith("`--"))  # arguments first
    yield _table(("argument or option", "default", "meaning"), rows)


def _placeholder(kind: Any) -> str:
    inner = next((option for option in get_args(kind) if option is not type(None)), kind)
    if get_args(inner):
        return _placeholder(inner)
    return {int: "NUMBER", float: "NUMBER", Path: "PATH", str: "TEXT"}[inner]


def python_page() -> str:
    """Every public name."""
    parts = ["# Python", NOTICE, PYTHON]
    names = [name for name in capse.__all__ if name not in ("__version__", "errors", "load")]
    for name in sorted(names, key=lambda name: (name[0].isupper(), name.lower())):
        value = getattr(capse, name)
        parts += [f"## capse.{name}", *(_class(value) if inspect.isclass(value) else _function(value))]
    tree = (inspect.getdoc(capse.errors) or "").split("\n\n", 1)[1].strip()
    parts += ["## capse.load", "The same as `capse.LinkPredictor.load`."]
    parts += ["## capse.errors", "Every exception that the user can put right.", f"```text\n{tree}\n```"]
    return "\n\n".join(parts) + "\n"


def _function(function: Any) -> Iterator[str]:
    yield f"```text\n{function.__name__}{_signature(function)}\n```"
    if function.__doc__:
        yield _docstring(function)


def _class(kind: Any) -> Iterator[str]:
    yield _docstring(kind)
    if dataclasses.is_dataclass(kind):
        comments = field_comments(kind)
        rows = [(f"`{f.name}`", f"`{f.type}`", comments.get(f.name, "")) for f in dataclasses.fields(kind)]
        yield _table(("attribute", "type", "meaning"), rows)
    for name, member in vars(kind).items():
        if not name.startswith("_") and isinstance(member, (FunctionType, classmethod)):
            yield f"### {kind.__name__}.{name}"
            yield from _function(getattr(kind, name))


def _signature(function: Any) -> str:
    """The signature, one parameter a line where it is long."""
    signature = inspect.signature(function)
    lines = []
    for name, parameter in signature.parameters.items():
        if name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in lines:
            lines.append("*")
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        lines.append(f"{stars}{name}: {parameter.annotation}{default}")
    text = f"({', '.join(lines)}) -> {signature.return_annotation}"
    if len(text) <= 90:
        return text
    return "(\n" + "".join(f"    {line},\n" for line in lines) + f") -> {signature.return_annotation}"


def _docstring(value: Any) -> str:
    """A docstring as Markdown, without its examples."""
    prose = (inspect.getdoc(value) or "").split("\n\n>>> ")[0]
    return re.sub(r"``(.+?)``", r"`\1`", prose)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


PAGES = {
    "recipes.md": recipes_page,
    "search-recipes.md": search_recipes_page,
    "command-line.md": command_line_page,
    "python.md": python_page,
}


def main() -> None:
    """Write the pages that changed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, render in PAGES.items():
        path, text = FOLDER / name, render()
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
