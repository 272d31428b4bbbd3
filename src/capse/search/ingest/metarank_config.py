"""Metarank's configuration, feature by feature, as a schema of fields and settings of ours.

A feature becomes a field of the schema, windows, a comparison of fields, a setting, or nothing, because a group of
features has it anyway. What has no counterpart is named, with what it would take. Written from Metarank's documentation
(https://docs.metarank.ai/reference/overview/feature-extractors), whose older names (`source` for `field`, `metadata.`
for `item.`, `interactions` for `weights`) are read too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from capse.errors import SettingsError
from capse.search.ingest.sources.metarank import KIND_OF
from capse.search.logs.actions import KINDS
from capse.search.logs.field_schema import MOST_DAYS, FieldSchema

_FORM = "give Metarank's config.yml, which has 'features', each with a 'name' and a 'type'"
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SCOPES = {"item": "item", "metadata": "item", "user": "user", "ranking": "request"}


@dataclass(frozen=True)
class Counterpart:
    """What became of one thing that the configuration names."""

    name: str
    type: str
    becomes: str  # empty: it has no counterpart
    note: str = ""


@dataclass
class Translation:
    """A schema, settings for commands, and what became of each feature and model."""

    item: dict[str, str] = field(default_factory=dict)
    user: dict[str, str] = field(default_factory=dict)
    request: dict[str, str] = field(default_factory=dict)
    result: dict[str, str] = field(default_factory=dict)
    match: list[list[str]] = field(default_factory=list)
    windows: set[int] = field(default_factory=set)
    settings: dict[str, str] = field(default_factory=dict)  # of 'capse search train' and 'ingest'
    rows: list[Counterpart] = field(default_factory=list)

    @property
    def missing(self) -> list[Counterpart]:
        """What has no counterpart."""
        return [row for row in self.rows if not row.becomes]

    @property
    def schema(self) -> FieldSchema:
        """Empty where nothing becomes a field or a window."""
        parts = {scope: dict(getattr(self, scope)) for scope in ("item", "user", "request", "result")}
        content: dict[str, Any] = {scope: types for scope, types in parts.items() if types}
        content |= {"match": self.match} if self.match else {}
        content |= {"windows": sorted(self.windows)} if self.windows else {}
        return FieldSchema.of(content) if set(content) - {"match"} else FieldSchema()


class _None(Exception):
    """A feature has no counterpart."""


def load_config(path: str | Path) -> Translation:
    """Translate a configuration file."""
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"{path} cannot be read ({' '.join(str(error).split())})", _FORM) from error
    return translate(content, str(path))


def translate(content: Any, place: str = "the configuration") -> Translation:
    """Translate what a configuration file holds."""
    features = content.get("features") if isinstance(content, Mapping) else None
    if not isinstance(features, list):
        raise SettingsError(f"{place} has no list of features", _FORM)
    found = Translation()
    for one in features:
        if not isinstance(one, Mapping) or not all(isinstance(one.get(key), str) for key in ("name", "type")):
            raise SettingsError(f"{place} has a feature without a name or a type: {repr(one)[:80]}", _FORM)
        found.rows.append(_feature(found, one))
    models = content.get("models")
    for name, model in (models if isinstance(models, Mapping) else {}).items():
        found.rows.append(_model(found, str(name), model if isinstance(model, Mapping) else {}))
    interactions = content.get("interactions")
    for one in interactions if isinstance(interactions, list) else ():
        if isinstance(one, Mapping):
            found.rows += _weights(found, {str(one.get("name")): one.get("weight")})
    return found


def _feature(found: Translation, feature: Mapping[str, Any]) -> Counterpart:
    name, kind = feature["name"], feature["type"]
    try:
        if kind not in _FEATURES:
            raise _None("a type that is not known")
        return Counterpart(name, kind, *_FEATURES[kind](found, feature))
    except _None as reason:
        return Counterpart(name, kind, "", str(reason))


def _add(found: Translation, feature: Mapping[str, Any], kind: str, key: str = "field") -> str:
    """Add a feature's field to the schema; returns its name there."""
    source = feature.get(key) or feature.get("source")
    scope, _, name = str(source).partition(".")
    if scope not in _SCOPES or not name:
        raise _None(
            f"its field is {source!r}: only fields of items, users and rankings are known when a list is ranked"
        )
    if name == "timestamp":
        raise _None("the time of an event is no field: send it as one")
    of_results = _SCOPES[scope] == "request" and feature.get("scope") == "item" and kind in ("number", "boolean")
    ours = "result" if of_results or name == "relevancy" else _SCOPES[scope]
    types: dict[str, str] = getattr(found, ours)
    known = types.setdefault(name, kind)
    if known != kind:
        raise _None(f"{ours}.{name} is a {known} already, by another feature: a field has one type")
    return f"{ours}.{name}"


def _plain(kind: str, note: str = "") -> Callable[[Translation, Mapping[str, Any]], tuple[str, str]]:
    """A feature that is a field of a type."""
    return lambda found, feature: (f"{_add(found, feature, kind)}: {kind}", note)


def _word_count(_: Translation, feature: Mapping[str, Any]) -> tuple[str, str]:
    source = str(feature.get("field") or feature.get("source"))
    if source.partition(".")[2] not in ("title", "text", "name"):
        raise _None("only words of titles and of texts are counted")
    return "built in", "features of texts have the words of the title and of all the rest"


def _kind(label: Any) -> str:
    """An interaction's kind, as events have it here."""
    kind = KIND_OF.get(str(label), str(label))
    if kind not in KINDS:
        raise _None(f"events of kind {label!r} are not known: {', '.join(KINDS)} are")
    return kind


def _windows(found: Translation, feature: Mapping[str, Any]) -> str:
    """Windows in days."""
    bucket = _seconds(feature.get("bucket") or feature.get("bucket_size") or "24h")
    days = [one * bucket / _SECONDS["d"] for one in _whole_numbers(feature.get("periods") or feature.get("windows"))]
    if not days or not all(one.is_integer() and 1 <= one <= MOST_DAYS for one in days):
        raise _None(f"its windows are no whole days from 1 to {MOST_DAYS}")
    found.windows |= {int(one) for one in days}
    return f"windows: [{', '.join(f'{one:g}' for one in days)}]"


def _whole_numbers(value: Any) -> list[int]:
    """Those of a list that has nothing else; none of anything else."""
    return value if isinstance(value, list) and all(type(one) is int for one in value) else []


def _seconds(text: Any) -> float:
    """Of a duration such as 24h."""
    number, unit = str(text)[:-1], str(text)[-1:]
    if unit not in _SECONDS or not number.isdecimal():
        raise _None(f"{text!r} is no duration such as 24h")
    return float(number) * _SECONDS[unit]


def _rate(found: Translation, feature: Mapping[str, Any]) -> tuple[str, str]:
    top, bottom = _kind(feature.get("top")), feature.get("bottom")
    if bottom not in ("impression", "impressions"):
        raise _None(f"rates are per showing, not per {bottom}")
    if top != "click":
        return "built in", f"how often a document gets a {top} when it is shown, of all time: windows count clicks"
    return _windows(found, feature), "clicks and showings, of each document and of items with the same texts"


def _window_count(found: Translation, feature: Mapping[str, Any]) -> tuple[str, str]:
    if feature.get("scope") != "item" or _kind(feature.get("interaction")) != "click":
        raise _None("windows count clicks on documents; of users the latest 200 events are remembered instead")
    return _windows(found, feature), ""


def _interaction_count(_: Translation, feature: Mapping[str, Any]) -> tuple[str, str]:
    kind, scope = _kind(feature.get("interaction")), feature.get("scope")
    if scope == "item":
        return "built in", f"how often everybody did a {kind} with a document"
    return "built in", f"of the {scope}: every {kind} on the document, and all together"


def _interacted_with(found: Translation, feature: Mapping[str, Any]) -> tuple[str, str]:
    kind = _kind(feature.get("interaction"))
    fields = feature.get("field") or feature.get("source")
    every = fields if isinstance(fields, list) else [fields]
    names = [_add(found, {"field": one}, "list") for one in every]
    note = f"the share of the user's and the session's {kind}s on items with the same texts"
    return ", ".join(f"{name}: list" for name in names), note


def _position(found: Translation, _: Mapping[str, Any]) -> tuple[str, str]:
    found.settings["bias.model"] = "position"
    return "bias.model=position", "clicks are weighed by inverse propensity instead"


def _relevancy(found: Translation, _: Mapping[str, Any]) -> tuple[str, str]:
    return f"{_add(found, {'field': 'item.relevancy'}, 'number')}: number", ""


def _field_match(found: Translation, feature: Mapping[str, Any]) -> tuple[str, str]:
    method = feature.get("method")
    kind = method.get("type") if isinstance(method, Mapping) else None
    asked, item = feature.get("rankingField"), str(feature.get("itemField"))
    if kind == "transformer":
        if asked != "ranking.query":
            raise _None("only queries are encoded")
        found.settings["vectors.source"] = "encoder"
        return "vectors.source=encoder", "with vectors.encoder=sentence-transformers:NAME; of the whole text"
    if kind not in ("bm25", "ngram", "term"):
        raise _None(f"matching by {kind} is not there")
    if asked == "ranking.query":
        return (
            "built in",
            f"BM25, shared words and letters of query, title and text; {item} counts if it is part of these",
        )
    pair = [_add(found, {"field": item}, "list"), _add(found, {"field": asked}, "list")]
    found.match.append(pair)
    return f"match: [{', '.join(pair)}]", "the share of texts that are the same"


def _missing(why: str) -> Callable[[Translation, Mapping[str, Any]], tuple[str, str]]:
    def missing(*_: Any) -> tuple[str, str]:
        raise _None(why)

    return missing


_FEATURES: dict[str, Callable[[Translation, Mapping[str, Any]], tuple[str, str]]] = {
    "number": _plain("number"),
    "boolean": _plain("boolean"),
    "string": _plain("list", "a column for each of the ten most frequent texts; 'values' are found in the log"),
    "relative_number": _plain("number", "its place in the list, and how far it is from the highest"),
    "item_age": _plain("time"),
    "time_diff": _plain("time"),
    "word_count": _word_count,
    "rate": _rate,
    "window_count": _window_count,
    "window_event_count": _window_count,
    "interaction_count": _interaction_count,
    "interacted_with": _interacted_with,
    "position": _position,
    "relevancy": _relevancy,
    "field_match": _field_match,
    "list_size": _missing("send the size as a number"),
    "vector": _missing("send what a reducer makes of it as numbers"),
    "local_time": _missing("send the hour or the day as a number of the request"),
    "ua": _missing("send what the user agent says as a category of the request"),
    "referer": _missing("send where the visitor comes from as a category of the request"),
    "diversity": _missing("results are scored one by one"),
    "random": _missing("nothing is drawn"),
}


def _model(found: Translation, name: str, model: Mapping[str, Any]) -> Counterpart:
    kind = str(model.get("type"))
    if kind == "lambdamart":
        weights = model.get("weights")
        rows = _weights(found, weights if isinstance(weights, Mapping) else {})
        found.rows += rows
        return Counterpart(name, kind, "--method forests", "LightGBM, with settings of our own")
    if kind == "noop":
        return Counterpart(name, kind, "--method se", "the engine's order, which every evaluation shows beside")
    return Counterpart(name, kind, "", "only lists that somebody found are ranked")


def _weights(found: Translation, weights: Mapping[str, Any]) -> list[Counterpart]:
    """Of events; those that are as they are by themselves, a click of 1, need no setting."""
    rows = []
    for label, weight in weights.items():
        try:
            kind = _kind(label)
            if isinstance(weight, bool) or not isinstance(weight, (int, float)):
                raise _None(f"its weight is {weight!r}")
            found.settings[f"events.{kind}"] = f"{weight:g}"
            rows.append(Counterpart(label, "weight", f"events.{kind}={weight:g}"))
        except _None as reason:
            rows.append(Counterpart(label, "weight", "", str(reason)))
    return rows
