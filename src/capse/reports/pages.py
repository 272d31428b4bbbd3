"""HTML pages from templates, each one file that needs nothing else; whatever a template is given is escaped."""

from __future__ import annotations

from typing import Any

import yaml
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined


def render_page(template: str, package: str = "capse.reports", **values: Any) -> str:
    """A template of a package with these values; a name that is not among them is an error."""
    return environment(package).get_template(template).render(**values)


def environment(package: str = "capse.reports") -> Environment:
    """The folder ``templates`` of a package, and ours.

    >>> environment().from_string("{{ 1234.56 | fmt(',.1f') }} {{ '<b>' }}").render()
    '1,234.6 &lt;b&gt;'
    """
    loaders = [PackageLoader(name) for name in dict.fromkeys([package, "capse.reports"])]
    made = Environment(
        loader=ChoiceLoader(loaders), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["fmt"] = format
    made.filters["yaml"] = lambda settings: yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    return made
