"""Errors as application/problem+json (RFC 9457): what is wrong, and what to change.

Nothing of the machine is told: no traceback, no path, nothing of other requests.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, get_args, get_origin

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from capse.errors import CapseError, EventConflictError, RunError, StorageError, StoreError, UnknownNameError

KINDS = {  # the last part of a problem's type: its status and title
    "malformed-json": (400, "The body is not JSON"),
    "malformed-request": (400, "The request is not HTTP"),
    "no-key": (401, "An API key is needed"),
    "forbidden": (403, "This key may not do that"),
    "not-found": (404, "There is nothing here"),
    "no-such-model": (404, "No such model is served"),
    "method-not-allowed": (405, "This method is not allowed here"),
    "conflict": (409, "This id stands for something else"),
    "known-fact": (409, "A known fact"),
    "reload-failed": (409, "The runs cannot be reloaded"),
    "too-slow": (408, "The request took too long to arrive"),
    "too-large": (413, "The body is too large"),
    "not-json": (415, "The body must be JSON"),
    "wrong-host": (421, "This host is not served"),
    "invalid": (422, "The request makes no sense"),
    "unknown-name": (422, "An unknown name"),
    "too-many-requests": (429, "Too many requests"),
    "headers-too-large": (431, "The headers are too large"),
    "internal": (500, "Something went wrong here"),
    "overloaded": (503, "Too many questions are waiting"),
    "unavailable": (503, "This cannot be answered now"),
}
MEDIA_TYPE = "application/problem+json"
_SHOWN_ERRORS = 20

log = logging.getLogger("capse.service")


class Problem(Exception):
    """An error to be answered; ``remedy`` says what to change."""

    def __init__(
        self, kind: str, detail: str, remedy: str = "", headers: Mapping[str, str] | None = None, **members: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.title = KINDS[kind]
        self.kind, self.detail, self.remedy = kind, detail, remedy
        self.headers = dict(headers or {})
        self.members = members

    def body(self) -> dict[str, Any]:
        content = {
            "type": f"urn:capse:problem:{self.kind}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.remedy:
            content["remedy"] = self.remedy
        return content | self.members

    def response(self) -> JSONResponse:
        return JSONResponse(self.body(), self.status, self.headers, media_type=MEDIA_TYPE)


class FieldProblem(BaseModel):
    """One thing that is wrong in a request."""

    where: str = Field(description="The place in the request", examples=["body.relation"])
    message: str = Field(examples=["Field required"])


class ProblemBody(BaseModel):
    """RFC 9457, with the remedy beside it."""

    model_config = ConfigDict(title="Problem", extra="allow")

    type: str = Field(examples=["urn:capse:problem:unknown-name"])
    title: str = Field(examples=["An unknown name"])
    status: int = Field(examples=[422])
    detail: str = Field(examples=["unknown relation 'boarders'"])
    remedy: str | None = Field(None, description="What to change", examples=["did you mean 'borders'?"])
    nearest: list[str] | None = Field(None, description="Names that exist", examples=[["borders"]])
    errors: list[FieldProblem] | None = None


def problem_schemas() -> dict[str, Any]:
    """What `documented` refers to, for the components of an OpenAPI description."""
    schema = ProblemBody.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**schema.pop("$defs"), "Problem": schema}


def documented(*kinds: str, example: Any = None) -> dict[int | str, dict[str, Any]]:
    """The responses of a route for its OpenAPI description: an ``example`` of success, and one of each problem.

    The example is a value, or a model whose fields have examples.
    """
    responses: dict[int | str, dict[str, Any]] = {}
    if example is not None:
        value = example_of(example) if isinstance(example, type) else example
        responses[200] = {"content": {"application/json": {"example": value}}}
    for kind in (*kinds, "internal"):
        status, title = KINDS[kind]
        content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": {}}}
        response = responses.setdefault(status, {"description": title, "content": content})
        example = Problem(kind, *_EXAMPLES[kind]).body()
        response["content"][MEDIA_TYPE]["examples"][kind] = {"value": example}
    return responses


def example_of(annotation: Any) -> Any:
    """An answer of a model: each field's first example, or one of the models that the field holds.

    >>> example_of(list[FieldProblem])
    [{'where': 'body.relation', 'message': 'Field required'}]
    """
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields.items()
        return {name: field.examples[0] if field.examples else example_of(field.annotation) for name, field in fields}
    inner = example_of(get_args(annotation)[0])
    return [inner] if get_origin(annotation) is list else inner


_EXAMPLES = {
    "malformed-json": ("the body is not JSON: expected value at line 1 column 1", "send one JSON object"),
    "malformed-request": ("the request is not HTTP/1.1", "check the client"),
    "no-key": ("no API key was given", "send it as 'Authorization: Bearer KEY'"),
    "forbidden": ("this key's scopes do not include 'admin'", "use a key that has it"),
    "not-found": ("there is nothing under this path", "see /openapi.json"),
    "no-such-model": ("no graph run is served", "start the service with one: capse serve RUN"),
    "method-not-allowed": ("this path does not answer to this method", "see /openapi.json"),
    "conflict": ("event 'e1' was sent before with another content", "give every event an id of its own"),
    "known-fact": ("(Kenya, borders, Uganda) is a known fact already", "leave it out, or say skip_known"),
    "reload-failed": ("RUN/model.safetensors is damaged", "repair the run; what was in service still is"),
    "too-slow": ("the body did not arrive within 20 seconds", "send it faster, or in smaller parts"),
    "too-large": ("the body is larger than 4,194,304 bytes", "send it in smaller parts"),
    "not-json": ("the body's type is not application/json", "set Content-Type: application/json"),
    "wrong-host": ("this service answers to names of this machine alone", "ask for http://127.0.0.1"),
    "invalid": ("body.relation: Field required", "see /openapi.json"),
    "unknown-name": ("unknown relation 'boarders'", "did you mean 'borders'?"),
    "too-many-requests": ("this key may make 600 requests a minute", "wait as long as Retry-After says"),
    "headers-too-large": ("the headers are larger than 32,768 bytes", "send fewer or shorter ones"),
    "internal": ("the request could not be answered; the log has its id", "report it if it happens again"),
    "overloaded": ("too many questions are waiting", "ask again after a second, or fewer at a time"),
    "unavailable": ("the database does not answer", "try again later"),
}


_REASONS = {"gone": "does not answer", "busy": "is busy", "full": "has no space left"}


def problem_of(error: CapseError) -> Problem:
    """An error of the package as a problem; those that speak of the machine's files say nothing of them."""
    if isinstance(error, UnknownNameError):
        return Problem("unknown-name", error.message, error.remedy, nearest=error.nearest)
    if isinstance(error, EventConflictError):
        return Problem("conflict", error.message, error.remedy)
    if isinstance(error, (StorageError, StoreError)):
        reason = _REASONS.get(error.kind if isinstance(error, StoreError) else "full", "cannot be used")
        return Problem("unavailable", f"the database {reason}", "try again later", {"Retry-After": "5"})
    if isinstance(error, RunError):
        return Problem("unavailable", "the model cannot answer this", "tell whoever runs this service")
    return Problem("invalid", error.message, error.remedy)


def install(app: FastAPI) -> None:
    """Answer every exception that a route can raise as a problem."""
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(CapseError, _on_capse_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_exception)


async def _on_problem(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)
    return error.response()


async def _on_capse_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, CapseError)
    problem = problem_of(error)
    if problem.status >= 500:
        kind = getattr(error, "kind", None)
        log.error("request failed", extra={"fields": {"error": type(error).__name__, "kind": kind}})
    return problem.response()


async def _on_validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    # Without the input that pydantic would show: it may be large, and nobody needs to be told what they sent.
    found = [
        {"where": _place(e["loc"]), "message": str(e["msg"]).removeprefix("Value error, ")[:500]}
        for e in error.errors()[:_SHOWN_ERRORS]
    ]
    first = found[0] if found else {"where": "body", "message": "invalid"}
    return Problem("invalid", f"{first['where']}: {first['message']}", "see /openapi.json", errors=found).response()


def _place(parts: Sequence[object]) -> str:
    """Where in the request, without the names that forms of a body have among themselves."""
    return ".".join(str(part) for i, part in enumerate(parts) if not (i == 1 and part in ("one", "many")))[:200]


_OF_STATUS = {404: "not-found", 405: "method-not-allowed", 400: "malformed-json", 413: "too-large"}


async def _on_http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    kind = _OF_STATUS.get(error.status_code)
    if kind is not None:
        return Problem(kind, *_EXAMPLES[kind], headers=error.headers).response()
    content = {
        "type": "about:blank",
        "title": HTTPStatus(error.status_code).phrase,
        "status": error.status_code,
        "detail": str(error.detail),
    }
    return JSONResponse(content, error.status_code, error.headers, media_type=MEDIA_TYPE)
