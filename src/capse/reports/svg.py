"""A figure as SVG that lives inside an HTML page."""

from __future__ import annotations

import io
import re
import warnings

from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.figure import Figure

from capse.reports.figures import INK


def inline_svg(figure: Figure, description: str, name: str) -> Markup:
    """The figure with text as text, in the page's own ink, its ids made unique by ``name``."""
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}), warnings.catch_warnings():
        # The reader's browser has the glyphs that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = re.sub(r"<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.DOTALL)
    _, opening, drawing = re.split(r"(<svg[^>]*>)", text, maxsplit=1)
    size = re.search(r'viewBox="[^"]*"', opening)
    drawing = drawing.replace(INK, "currentColor")
    drawing = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", drawing)
    title = escape(description)
    return Markup(f'<svg role="img" {size.group() if size else ""}><title>{title}</title>{drawing.strip()}')
