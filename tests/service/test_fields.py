"""Fields in requests reach the trees as in evaluation; mistyped ones are counted; all are kept with lists."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from capse.runs.formats import FORMAT
from capse.runs.manifest import write_manifest
from capse.search.ingest import ingest
from capse.search.logs.field_schema import FieldSchema
from capse.search.logs.field_values import columns_of
from capse.search.logs.history import cutoffs
from capse.search.logs.log_fields import LogFields
from capse.search.logs.search_log import SearchLog
from capse.search.rankers.lambdamart import LambdaMARTSettings
from capse.search.rankers.sp_lambdamart import SP
from capse.search.rankers.standing import Standing
from capse.search.times import to_seconds
from capse.search.vectors.vector_space import VectorSettings, build_vectors
from capse.service.stored_log import StoredLog

SCHEMA = FieldSchema.of(
    {"item": {"price": "number"}, "user": {"budget": "number"}, "request": {"device": "category"}, "windows": [7]}
)


@pytest.fixture(scope="module")
def shop(simulated):
    """A log in which only what is cheap satisfies."""
    draw, log = np.random.default_rng(0), simulated.log
    price = draw.integers(1, 100, len(log.documents)).astype(float)
    satisfied = (price[log.document] < 40) & log.clicked
    said = LogFields(
        SCHEMA,
        item={"price": price},
        user={"budget": draw.random(len(log))},
        request=columns_of(SCHEMA.request, [{"device": ("phone",)}] * len(log)),
    )
    return replace(log, satisfied=satisfied, fields=said)


@pytest.fixture(scope="module")
def shop_run(shop, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop") / "run"
    folder.mkdir()
    space = build_vectors(shop, VectorSettings(topics=8, iterations=3))
    settings = LambdaMARTSettings(trees=20, leaves=7, learning_rate=0.2, least_documents=10, patience=0)
    ranker = replace(SP.fit(shop, cutoffs(shop), settings, space=space), standing=Standing())
    ranker.save(folder)
    (folder / "recipe.yaml").write_text(f"format: {FORMAT}\nmethod: sp\n")
    write_manifest(folder)
    return folder


def ask(client, shop, impression, **more):
    rows = shop.rows(np.array([impression]))
    body = {
        "documents": [shop.documents.ids[number] for number in shop.document[rows].tolist()],
        "query": shop.queries[shop.query[impression]],
        "session": "none",
        "time": to_seconds(int(shop.time[impression])),
        "user_fields": {"budget": float(shop.fields.user["budget"][impression])},
        "fields": {"device": "phone"},
    }
    answer = client.post("/v1/rerank", body | more)
    assert answer.status_code == 200, answer.text
    return answer.json()["documents"]


def test_a_request_has_the_scores_of_the_log(serve, shop, shop_run, database):
    client = serve(shop_run, database=database)
    past = client.service.models.search.reranker.scorer.past
    impression = int(np.flatnonzero(shop.time >= past.until)[0])
    fresh = replace(shop, user=np.arange(len(shop), dtype=np.int32), users=[f"u{n}" for n in range(len(shop))])
    ranker = SP.load(shop_run)
    expected = ranker.score(fresh, np.array([impression]), cutoffs(shop))
    found = {one["position"]: one["score"] for one in ask(client, shop, impression)}
    assert [found[place + 1] for place in range(len(expected))] == expected.tolist()
    dear = ask(client, shop, impression, documents=[{"id": "d3", "fields": {"price": 99}}, "d4"])
    cheap = ask(client, shop, impression, documents=[{"id": "d3", "fields": {"price": 2}}, "d4"])
    of = [{one["document"]: one["score"] for one in answer}["d3"] for answer in (dear, cheap)]
    assert of[0] < of[1]


def test_values_of_another_type_are_left_out_and_counted(serve, shop, shop_run, database):
    client = serve(shop_run, database=database)
    documents = [{"id": "d3", "fields": {"price": "cheap", "colour": "red"}}, "d4"]
    ask(client, shop, 200, documents=documents, user_fields={"budget": [1, 2]})
    figures = client.get("/metrics").text
    assert 'capse_mistyped_fields_total{field="item.price"} 1.0' in figures
    assert 'capse_mistyped_fields_total{field="user.budget"} 1.0' in figures
    refused = client.post("/v1/rerank", {"documents": ["d3"], "fields": {"device": {"is": "phone"}}})
    assert refused.status_code == 422


def test_fields_are_kept_with_lists_and_become_a_log_again(serve, shop, shop_run, database, tmp_path):
    client = serve(shop_run, database=database, keep_lists=1)
    for impression in (0, 1):
        documents = [{"id": "d3", "fields": {"price": 5 + impression}}, {"id": "d4", "fields": {"price": 7}}]
        ask(client, shop, impression, documents=documents, user="ada")
    client.service.recorder.write_now()
    ingest([], tmp_path / "log", format=StoredLog(client.service.store), fields=replace(SCHEMA, windows=()))
    log = SearchLog.load(tmp_path / "log")
    assert dict(zip(log.documents.ids, np.asarray(log.fields.item["price"]), strict=True)) == {"d3": 6, "d4": 7}
    np.testing.assert_array_equal(log.fields.user["budget"], shop.fields.user["budget"][:2])
