"""Several services behind one address: each scores its share of the entities, and the best of all are merged.

A shard is an ordinary service of the same run that was told ``--shard 2/3``. It is asked what its client asked here, so
all that a question may say means the same there. Scores come as numbers that lose nothing on the way, and answers of
equal score stand in the order of labels, which is that of ids: so the answers are those of one process, to the bit.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from capse.service.problems import Problem

HEADER = "Capse-Shard"  # of an answer: which shard gave it, of how many
_SECONDS = 30.0  # that a shard may take
_REMEDY = "ask again when it is back: see how to serve a large graph"

Answer = list[dict[str, Any]]


class Shards:
    """The services at these addresses, in the order of their shares."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self.addresses = [address.rstrip("/") for address in addresses]
        self._opener = build_opener(ProxyHandler({}))  # no proxy lies between a service and its shards

    async def predict(self, queries: Sequence[Any], key: str | None, model: str) -> list[Answer]:
        """The answers to each query, of the route's model, to a caller with this key; a Problem names a shard."""
        body = json.dumps({"queries": [query.model_dump(exclude_none=True) for query in queries]}).encode()
        asked = (asyncio.to_thread(self._ask, number, body, key, model) for number in range(len(self.addresses)))
        found = await asyncio.gather(*asked)
        parts = zip(*found, strict=True)  # of each query what each shard answered
        return [
            merged(answers, query.top) if query.relation is not None else answers[0]  # all shards know all relations
            for query, answers in zip(queries, parts, strict=True)
        ]

    def _ask(self, number: int, body: bytes, key: str | None, model: str) -> list[Answer]:
        headers = {"Content-Type": "application/json"} | ({} if key is None else {"Authorization": key})
        request = Request(f"{self.addresses[number]}/v1/predict", body, headers)
        which = f"{number + 1}/{len(self.addresses)}"
        try:
            with self._opener.open(request, timeout=_SECONDS) as response:
                said, said_which = json.load(response), response.headers.get(HEADER)
        except HTTPError as error:
            raise Problem("unavailable", f"shard {which} answered with status {error.code}", _REMEDY) from error
        except (OSError, ValueError, HTTPException) as error:
            raise Problem("unavailable", f"shard {which} does not answer", _REMEDY) from error
        if said_which != which:
            raise Problem("unavailable", f"shard {which} is served as shard {said_which or 'none'}", _REMEDY)
        if said["model"] != model:
            raise Problem("unavailable", f"shard {which} serves another model", "load the same run everywhere")
        results: list[Answer] = said["results"]
        return results


def merged(answers: Sequence[Answer], top: int) -> Answer:
    """The best of several lists, each of which is in order.

    >>> merged([[{"entity": "b", "score": 1.5}], [{"entity": "a", "score": 1.5}, {"entity": "c", "score": 0.5}]], 2)
    [{'entity': 'a', 'score': 1.5}, {'entity': 'b', 'score': 1.5}]
    """
    every = (answer for part in answers for answer in part)
    return sorted(every, key=lambda answer: (-answer["score"], answer["entity"]))[:top]
