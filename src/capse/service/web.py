"""The page's files, read when the service starts: no request makes it open a file.

They may run scripts, load styles and ask from here alone, and no other site may show them in a frame.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import FastAPI, Request, Response

FOLDER = Path(__file__).parent / "page"
INDEX = "index.html"

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # kept, but asked for again: names stay the same when contents change
}


def install(app: FastAPI, folder: Path = FOLDER) -> None:
    """Answer to the name of every file in the folder, and to / with the index."""
    if not folder.is_dir():
        return
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if file.is_file() and file.suffix != ".py" and not name.startswith((".", "__")):
            kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
            answer = _answer(file.read_bytes(), kind)
            for path in (f"/{name}", *(["/"] if name == INDEX else [])):
                app.add_route(path, answer, include_in_schema=False)


def _answer(content: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'

    async def answer(request: Request) -> Response:
        headers = HEADERS | {"ETag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)

    return answer
