"""SEARCH17's own files: a list written by hand, and the real splits with the notes' counts and baselines."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from capse.errors import DataError
from capse.search.evaluation.evaluate import evaluate
from capse.search.ingest import ingest
from capse.search.ingest.sources import detect, search17
from capse.search.logs.history import Replay, cutoffs
from capse.search.logs.search_log import SearchLog
from capse.search.rankers.baselines import SE

TRAIN = """\
sq-70 r-2 q-7 u-1-10 d-5
sq-70 r-1 d-4
sq-71 r-3 q-7 u-1-10 d-6
sq-71 r-1 d-4
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sample_train.200.txt").write_text(TRAIN)
    with gzip.open(tmp_path / "sample_test.200.txt.gz", "wt") as file:
        file.write("sq-90 r-1 q-9 u-1-11 d-4\nsq-90 r-2 d-8\n")
    return tmp_path


def test_a_list_is_an_impression_with_its_first_line_clicked(folder: Path, staged: Callable) -> None:
    assert detect([folder]) == "search17"
    found = staged(search17.stage, [folder])
    assert [(row["impression"], row["position"], row["document"], row["split"]) for row in found.results] == [
        ("sq-90", 1, "d-4", "test"),
        ("sq-90", 2, "d-8", "test"),
        ("sq-70", 2, "d-5", "train"),
        ("sq-70", 1, "d-4", "train"),
        ("sq-71", 3, "d-6", "train"),
        ("sq-71", 1, "d-4", "train"),
    ]
    assert {(row["user"], row["session"], row["query"]) for row in found.results} == {
        ("u-1", "u-1-10", "q-7"),
        ("u-1", "u-1-11", "q-9"),
    }
    assert {(row["impression"], row["document"]) for row in found.clicks} == {
        ("sq-70", "d-5"),
        ("sq-71", "d-6"),
        ("sq-90", "d-4"),
    }


def test_lists_of_one_query_do_not_know_each_others_clicks(folder: Path, tmp_path: Path) -> None:
    ingest(folder, tmp_path / "log")
    log = SearchLog.load(tmp_path / "log")
    known: set[str] = set()
    at: dict[str, set[str]] = {}
    for event in Replay(log, cutoffs(log)):
        if event.kind == "click":
            known.add(log.documents.ids[log.document[event.number]])
        else:
            at.setdefault(log.queries[log.query[event.number]], set()).update(known)
    assert at == {"q-7": set(), "q-9": {"d-5", "d-6"}}


def test_broken_lines_are_rejected_with_their_place(folder: Path, staged: Callable) -> None:
    file = folder / "sample_train.200.txt"
    file.write_text("sq-69 r-1 d-1\n" + TRAIN + "\nsq-70 r-5 d-9\nsq-71 rank d-7\n")
    found = staged(search17.stage, [folder])
    assert [(row["source"], row["row"], row["raw"]) for row in found.rejects] == [
        (file.name, 1, "sq-69 r-1 d-1"),
        (file.name, 7, "sq-70 r-5 d-9"),
        (file.name, 8, "sq-71 rank d-7"),
    ]
    assert len(found.results) == 6


def test_lists_longer_than_ten_are_reported(folder: Path, staged: Callable) -> None:
    longer = ["sq-80 r-40 q-8 u-1-10 d-0", *(f"sq-80 r-{rank} d-{rank}" for rank in range(1, 11))]
    (folder / "sample_train.200.txt").write_text(TRAIN + "\n".join(longer))
    notes = " ".join(staged(search17.stage, [folder]).notes)
    # ranks 2, 2 and 11 of 11: MRR (1/2 + 1/2 + 1/11) / 3, and (1/2 + 1/2 + 1) / 3 with the last put first
    assert "train: in 1 of 1 lists longer than 10" in notes
    assert "from .364 to .667" in notes
    assert "test: in" not in notes


def test_vectors_are_kept_with_the_log(folder: Path, tmp_path: Path) -> None:
    (folder / "user2vec.3.init").write_text("u-1-10 2.0E-4 0.5 0.25\nu-1-11 1 2\nu-1-12 1 x 3\nu-1-13 1 1e99 3\n")
    (folder / "doc2vec.3.init").write_text("d-4 1 2 3\nd-5 4 5 6\n")
    report = ingest(folder, tmp_path / "log")
    users = pq.read_table(tmp_path / "log/vectors/users.parquet")
    assert users["label"].to_pylist() == ["u-1-10"]
    assert users["vector"].to_pylist()[0] == pytest.approx([2e-4, 0.5, 0.25])
    assert pq.read_table(tmp_path / "log/vectors/documents.parquet")["vector"].to_pylist() == [[1, 2, 3], [4, 5, 6]]
    assert not (tmp_path / "log/vectors/queries.parquet").exists()
    assert report.counts["rejected"] == 3


def test_a_folder_without_splits_is_an_error(tmp_path: Path, staged: Callable) -> None:
    with pytest.raises(DataError, match="no split of SEARCH17"):
        staged(search17.stage, [tmp_path])


@pytest.fixture(scope="module")
def real(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[SearchLog, list[str], Path]:
    if not (real_data / "search17").is_dir():
        pytest.skip("CAPSE_DATA has no search17")
    out = tmp_path_factory.mktemp("search17") / "log"
    report = ingest(real_data / "search17", out)
    assert report.quarantined == {}
    return SearchLog.load(out), report.notes, out


@pytest.mark.parametrize(
    ("split", "relevant", "irrelevant"), [("train", 5_658, 40_239), ("valid", 1_148, 7_918), ("test", 1_210, 8_540)]
)
def test_the_counts_of_the_notes(real: tuple, split: str, relevant: int, irrelevant: int) -> None:
    log = real[0]
    rows = log.rows(log.of_split(split))
    assert (log.satisfied[rows].sum(), (~log.satisfied[rows]).sum()) == (relevant, irrelevant)
    assert len(log.judged(split)) == relevant


class Constant:
    """Knows nothing: every document is as good as any other."""

    name = "constant"

    def score(self, log, impressions, cutoffs):
        return np.zeros(len(log.rows(impressions)))


def test_the_engine_is_that_of_the_notes(real: tuple) -> None:
    found = evaluate(SE(), real[0])
    assert found.impressions == 1_210
    assert found.metrics["mrr"] == pytest.approx(0.5590, abs=5e-5)
    assert found.metrics["hits@1"] == pytest.approx(0.385, abs=5e-4)
    artefact = "in all 22 lists of more than 10 results the relevant document is the last"
    assert any(artefact in warning and "from 0.5590 to 0.57" in warning for warning in found.warnings)


def test_a_constant_scorer_gets_chance_though_the_relevant_document_comes_first_in_the_file(real: tuple) -> None:
    found = evaluate(Constant(), real[0])
    assert found.metrics["mrr"] == pytest.approx(found.beside["chance"]["mrr"])
    assert found.metrics["mrr"] == pytest.approx(0.353, abs=5e-4)
    assert found.metrics["hits@1"] == pytest.approx(0.138, abs=5e-4)
    assert any("constant is not significantly above chance" in warning for warning in found.warnings)


def test_the_artefact_is_reported(real: tuple) -> None:
    assert any("test: in 22 of 22 lists longer than 10" in note and "from .559 to .576" in note for note in real[1])


def test_every_session_has_its_profile(real: tuple) -> None:
    log, _, out = real
    profiles = pq.read_table(out / "vectors/users.parquet")
    assert set(profiles["label"].to_pylist()) == set(log.sessions)
    assert {len(vector) for vector in profiles["vector"].to_pylist()} == {200}
