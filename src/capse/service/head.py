"""HEAD is answered wherever GET is, with the same headers and no body: probes and proxies ask that way."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadAsGet:
    """Has the application answer a HEAD as a GET, and leaves the body out."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def send_headers(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        asked = dict(scope, method="GET")
        try:
            await self.app(asked, receive, send_headers)
        finally:
            scope["route"] = asked.get("route")  # for the metrics
