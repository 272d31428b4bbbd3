"""Forgotten means forgotten: by this worker and the others, by the run's files, and by runs that come back."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
import torch

from capse.errors import RunError
from capse.models import model_settings
from capse.runs.manifest import write_manifest
from capse.runs.versions import Versions
from capse.search.rankers.search_run import SearchRun, personal_model
from capse.search.rankers.training_past import TrainingPast
from capse.search.users.user_state import ProfileSettings
from capse.search.vectors.vector_space import VectorSettings, build_vectors
from tests.search.rankers.test_forgetting import names_in

NOW = 1_700_000_000


@pytest.fixture(scope="module")
def trained(simulated, tmp_path_factory):
    """A run that knows everybody of its log: by an offset, and by what they clicked."""
    log = simulated.log
    space = build_vectors(log, VectorSettings(topics=8, iterations=3))
    settings = model_settings({"name": "capse", "dim": 8})
    model = personal_model(settings, len(log.users), 8, seed=1)
    torch.nn.init.normal_(model.offsets, std=0.5, generator=torch.Generator().manual_seed(0))
    run = SearchRun(settings, ProfileSettings(), model.eval(), space, list(log.users))
    path = tmp_path_factory.mktemp("trained") / "run"
    replace(run, past=TrainingPast.of(log)).save(path)
    return path


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def lists(client, user, simulated):
    ids = simulated.log.documents.ids
    asked = [{"user": user, "query": "q", "documents": ids[n : n + 10], "time": NOW} for n in range(0, 60, 2)]
    answer = client.post("/v1/rerank", {"requests": asked})
    assert answer.status_code == 200, answer.text
    return [[(one["document"], one["score"]) for one in ranked] for ranked in answer.json()["results"]]


def test_no_list_follows_a_deleted_user(serve, run, database, simulated):
    user, other = simulated.log.users[:2]
    client, worker = (serve(run, database=database) for _ in range(2))
    stranger = lists(client, "a stranger", simulated)
    theirs, others = lists(client, user, simulated), lists(client, other, simulated)
    assert sum(a != b for a, b in zip(theirs, stranger, strict=True)) == 30
    assert names_in(run, user)
    answer = client.request("DELETE", f"/v1/users/{user}").json()
    assert answer == {"events": 0, "keys": 0, "runs": True}
    for one in (client, worker):
        assert lists(one, user, simulated) == stranger
        assert lists(one, other, simulated) == others
    assert names_in(run, user) == []


def test_a_former_run_revives_nobody(serve, run, trained, database, simulated):
    user = simulated.log.users[3]
    first = serve(run, database=database)
    stranger = lists(first, "a stranger", simulated)
    first.request("DELETE", f"/v1/users/{user}")
    shutil.rmtree(run)
    shutil.copytree(trained, run)
    assert first.post("/v1/admin/reload").status_code == 200
    again = serve(run, database=database)
    for client in (first, again):
        assert lists(client, user, simulated) == stranger
    assert names_in(run, user), "it came back with the user in it"
    assert again._runner.run(again.service.clean_runs()), "as it does when it starts"
    assert names_in(run, user) == []


def test_every_version_that_is_kept_and_a_run_beside_it_forget_too(serve, run, trained, database, simulated, tmp_path):
    user, versions = simulated.log.users[3], Versions(run)
    with versions.held():
        versions.adopt()
        for _ in range(2):
            path = shutil.copytree(trained, versions.next_path())
            versions.put_in_service(path.name, "handed over")
    beside = shutil.copytree(trained, tmp_path / "beside")
    (beside / "recipe.yaml").write_text((beside / "recipe.yaml").read_text() + "# another run\n")
    write_manifest(beside)
    with (versions.folder / "0002" / "past" / "clicks.parquet").open("wb") as damaged:
        damaged.write(user.encode())
    client = serve(run, database=database, against=str(beside), keep_lists=1.0)
    assert client.request("DELETE", f"/v1/users/{user}").json()["runs"] is True
    assert versions.names() == ["0001", "0003"]
    assert versions.history()[-1]["what"] == "withdrawn"
    for folder in (versions.folder, beside):
        assert names_in(folder, user) == []
    versions.put_in_service(versions.before(), "rolled back")
    assert client.post("/v1/admin/reload").status_code == 200
    assert lists(client, user, simulated) == lists(client, "a stranger", simulated)


def test_what_is_clicked_afterwards_counts_anew(serve, run, database, simulated):
    user = simulated.log.users[0]
    client = serve(run, database=database)
    client.request("DELETE", f"/v1/users/{user}")
    for name in (user, "a stranger"):
        document = simulated.log.documents.ids[7]
        click = {"id": "1", "kind": "click", "user": name, "session": "s", "time": NOW, "document": document}
        assert client.post("/v1/events", click).json() == {"outcomes": ["accepted"]}
    assert lists(client, user, simulated) == lists(client, "a stranger", simulated)
    assert client.get(f"/v1/users/{user}").json()["interests"] == client.get("/v1/users/a stranger").json()["interests"]


def test_files_that_cannot_be_rewritten_are_said_to_be_so(serve, run, database, simulated, monkeypatch):
    user = simulated.log.users[0]
    client = serve(run, database=database)

    def refuse(*_):
        raise RunError(f"{run} still names somebody", "make it writable")

    monkeypatch.setattr("capse.service.state.forget_in_versions", refuse)
    answer = client.request("DELETE", f"/v1/users/{user}")
    assert (answer.status_code, answer.json()["runs"]) == (200, False)
    assert lists(client, user, simulated) == lists(client, "a stranger", simulated)
