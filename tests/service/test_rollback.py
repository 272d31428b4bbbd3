"""A former version of a run is put back in service, and answers from then on."""

from __future__ import annotations

import shutil

from capse.runs.versions import Versions
from capse.service.loaded_models import fingerprint


def test_a_version_that_is_put_back_answers(search_run, make_search_run, serve, database, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(search_run, run)
    versions = Versions(run)
    with versions.held():
        versions.adopt()
        make_search_run(versions.next_path(), seed=5)
        versions.put_in_service("0002", "handed over")
    client = serve(run, database=database)
    asked = {"user": "ada", "query": "words", "documents": ["d1", "d2", "d3"]}
    for version in ("0002", "0001", "0002"):
        versions.put_in_service(version, "rolled back")
        assert client.post("/v1/admin/reload").status_code == 200
        answers = [client.post("/v1/rerank", asked).json()["model"] for _ in range(3)]
        assert answers == [fingerprint(versions.folder / version)] * 3
