"""JSON logs and Prometheus metrics, without personal data: no ids of users, no queries, no keys, no raw paths."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import traceback
import uuid
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from capse.service.problems import Problem

log = logging.getLogger("capse.service")

METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # prometheus_client's own: a folder that all workers write to

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SCORES = (-10, -5, -3, -2, -1, -0.5, -0.2, 0, 0.2, 0.5, 1, 2, 3, 5, 10)
_SPREADS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 20)
_SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """The metrics of this process; with several workers, every worker's, added up when somebody asks."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.requests = counter("capse_requests_total", "Requests answered.", ["method", "route", "status"])
        self.seconds = histogram(
            "capse_request_seconds", "From the headers to the end of the response.", ["route"], buckets=_SECONDS
        )
        self.in_flight = gauge("capse_requests_in_flight", "Requests being answered.", multiprocess_mode="livesum")
        self.batch_questions = histogram("capse_batch_questions", "Questions scored in one call.", buckets=_SIZES)
        self.batch_requests = histogram("capse_batch_requests", "Requests with questions in one call.", buckets=_SIZES)
        self.batch_seconds = histogram("capse_batch_seconds", "Seconds of one call.", buckets=_SECONDS)
        self.reloads = counter("capse_reloads_total", "Reloads of the runs.", ["outcome"])
        self.lists = counter("capse_lists_total", "Lists to be learned from.", ["outcome"])
        self.mistyped = counter(
            "capse_mistyped_fields_total", "Values of fields of another type than in the run's schema.", ["field"]
        )
        self.model = gauge(
            "capse_model_info", "1 for the version in service.", ["kind", "version"], multiprocess_mode="livemax"
        )

        self.best_score = histogram("capse_best_score", "The best score of a list.", ["run"], buckets=_SCORES)
        self.score_spread = histogram(
            "capse_score_spread", "From the worst score of a list to the best.", ["run"], buckets=_SPREADS
        )
        self.documents = counter("capse_reranked_documents_total", "Documents of lists.", ["run", "outcome"])
        self.words = counter("capse_query_words_total", "Words of queries.", ["run", "known"])
        self.clicks_by_rank = counter("capse_clicks_by_rank_total", "Clicks, where their documents stood.", ["rank"])

    def batch(self, questions: int, requests: int, seconds: float) -> None:
        self.batch_questions.observe(questions)
        self.batch_requests.observe(requests)
        self.batch_seconds.observe(seconds)

    def serving(self, versions: dict[str, str], before: dict[str, str]) -> None:
        """Say which versions are in service, in place of those ``before``."""
        for kind, version in before.items():
            self.model.labels(kind, version).set(0)
        for kind, version in versions.items():
            self.model.labels(kind, version).set(1)

    def text(self) -> bytes:
        """What Prometheus reads."""
        if METRICS_VARIABLE not in os.environ:
            return generate_latest(self.registry)
        every = CollectorRegistry()
        multiprocess.MultiProcessCollector(every)  # type: ignore[no-untyped-call]
        return generate_latest(every)


class Observe:
    """The outermost layer: a request id, a line in the log, metrics, and an answer to unhandled exceptions."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, request_id, status = time.perf_counter(), uuid.uuid4().hex[:16], 0

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                headers["X-Content-Type-Options"] = "nosniff"
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        fields: dict[str, Any] = {}
        self.metrics.in_flight.inc()
        try:
            await self.app(scope, receive, send_on)
        except Exception as error:
            fields = {"error": type(error).__name__, "at": _frames(error)}
            if status:
                raise  # the response has begun: all that is left is to break it off
            status = 500
            detail = "the request could not be answered; the log has its id"
            problem = Problem("internal", detail, "report it if it happens again", request=request_id)
            await problem.response()(scope, receive, send_on)
        finally:
            self.metrics.in_flight.dec()
            route = getattr(scope.get("route"), "path", None) or "other"
            took = time.perf_counter() - started
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self.metrics.requests.labels(method, route, str(status)).inc()
            self.metrics.seconds.labels(route).observe(took)
            fields |= {"method": method, "route": route, "status": status, "ms": round(1000 * took, 2)}
            level = logging.ERROR if status >= 500 else logging.INFO
            log.log(level, "request", extra={"fields": {"request": request_id, **fields}})


_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


def _frames(error: Exception) -> list[str]:
    """Where an exception came from. Not what it said: that may hold what somebody asked."""
    return [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[-5:]]


class JsonLines(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        content: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage() if record.name.startswith("capse") else f"uvicorn: {record.getMessage()}",
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1]:
            content["error"] = type(record.exc_info[1]).__name__
        return json.dumps(content, ensure_ascii=False)


def configure_logs(level: str) -> None:
    """Everything the service and uvicorn have to say, as JSON lines on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name, least in (("capse.service", level.upper()), ("uvicorn", "WARNING")):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(least)
