"""TREC Session Track XML: small files written by hand, and the real one of 2013."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from capse.errors import DataError
from capse.search.evaluation.evaluate import evaluate
from capse.search.ingest import ingest
from capse.search.ingest.sources import detect, trec
from capse.search.logs.search_log import SearchLog
from capse.search.rankers.baselines import SE

SESSIONS = """\
<sessiontrack2013>
  <session num="1" starttime="0">
    <topic num="1"><desc>the war</desc></topic>
    <interaction num="1" starttime="10.5">
      <query>civil  war</query>
      <results>
        <result rank="1"><url>http://a</url><clueweb12id>c-1</clueweb12id><title>War &amp;amp; peace</title>
          <snippet>short</snippet></result>
        <result rank="2"><url>http://b</url><title>Causes</title><snippet></snippet></result>
      </results>
      <clicked>
        <click num="1" starttime="20" endtime="25.5"><rank>2</rank></click>
        <click num="2" starttime="30" endtime="NA"><rank>1</rank></click>
        <click num="3" starttime="31" endtime="32"><rank>3</rank></click>
      </clicked>
    </interaction>
    <currentquery starttime="40"><query>next</query></currentquery>
  </session>
  <session num="2" starttime="0">
    <interaction num="1" starttime="5">
      <query>war</query>
      <results><result rank="1"><clueweb12id>c-1</clueweb12id><title>War</title>
        <snippet>much longer text</snippet></result></results>
    </interaction>
    <interaction num="2" starttime="9"><query>nothing</query><results></results></interaction>
  </session>
</sessiontrack2013>
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "track.xml"
        path.write_text(text)
        return path

    return write


def test_interactions_become_lists_and_clicks(write: Callable, staged: Callable) -> None:
    path = write(SESSIONS)
    assert detect([path]) == "trec"
    found = staged(trec.stage, [path])
    shown = [
        (r["impression"], r["user"], r["session"], r["query"], r["position"], r["document"]) for r in found.results
    ]
    assert shown == [
        ("1-1", "session-1", "1", "civil war", 1, "c-1"),
        ("1-1", "session-1", "1", "civil war", 2, "http://b"),
        ("2-1", "session-2", "2", "war", 1, "c-1"),
    ]
    assert [(row["document"], row["dwell"]) for row in found.clicks] == [("http://b", 5.5), ("c-1", None)]
    assert found.clicks[0]["time"] - found.results[0]["time"] == 9_500_000


def test_sessions_follow_one_another(write: Callable, staged: Callable) -> None:
    times = [row["time"] for row in staged(trec.stage, [write(SESSIONS)]).results]
    assert times[0] == (trec.EPOCH + 10.5) * 1e6
    assert times[2] == (trec.EPOCH + 30 + 3_600 + 5) * 1e6  # the last readable moment of session 1 is at 30


def test_clock_times_are_those_of_the_session(write: Callable, staged: Callable) -> None:
    """As in the track of 2011. A session may go on after midnight."""
    clock = {"10.5": "23:59:50.5", "20": "00:00:00", "25.5": "00:00:05.5", "30": "00:00:10", "31": "00:00:11"}
    text = SESSIONS.replace('<session num="1" starttime="0">', '<session num="1" starttime="23:59:40.0000">')
    for plain, told in clock.items():
        text = text.replace(f'time="{plain}"', f'time="{told}"')
    assert text.count(":") >= 6
    given, plain = staged(trec.stage, [write(text)]), staged(trec.stage, [write(SESSIONS)])
    assert given.results == plain.results
    assert given.clicks == plain.clicks


def test_a_session_without_a_start_begins_with_its_first_clock_time(write: Callable, staged: Callable) -> None:
    text = SESSIONS.replace('starttime="10.5"', 'starttime="10:57:41.37"').replace('"20"', '"10:57:51.37"')
    found = staged(trec.stage, [write(text)])
    assert found.results[0]["time"] == trec.EPOCH * 10**6
    assert found.clicks[0]["time"] == (trec.EPOCH + 10) * 10**6


@pytest.mark.parametrize("time", ["24:00:00", "10:60:00", "10:57", "٣:57:41", "10:57:41.37.1"])
def test_what_no_clock_shows_is_rejected(write: Callable, staged: Callable, time: str) -> None:
    found = staged(trec.stage, [write(SESSIONS.replace('num="1" starttime="5"', f'num="1" starttime="{time}"'))])
    assert "an unreadable time" in [row["reason"] for row in found.rejects]


def test_the_longest_description_of_a_document_stands(write: Callable, staged: Callable) -> None:
    texts = {r["document"]: (r["title"], r["text"]) for r in staged(trec.stage, [write(SESSIONS)]).documents}
    assert texts == {"c-1": ("War", "much longer text"), "http://b": ("Causes", None)}
    titles = [row["title"] for row in staged(trec.stage, [write(SESSIONS.replace("much longer text", ""))]).documents]
    assert titles == ["War & peace", "Causes"]


def test_what_cannot_be_used_is_rejected_with_its_line(write: Callable, staged: Callable) -> None:
    broken = SESSIONS.replace('num="1" starttime="5"', 'num="1" starttime="soon"')
    rejects = [(row["row"], row["reason"]) for row in staged(trec.stage, [write(broken)]).rejects]
    assert rejects == [
        (14, "click on a rank that was not shown"),
        (20, "an unreadable time"),
        (25, "interaction without results"),
    ]


def test_odd_numbers_do_no_harm(write: Callable, tmp_path: Path) -> None:
    odd = SESSIONS.replace('rank="2"', f'rank="{10**30}"').replace("25.5", "1e300").replace('"30"', '"nan"')
    report = ingest(write(odd), tmp_path / "log")
    assert report.quarantined["click with an unreadable time"] == 1
    assert report.quarantined["position missing or below 1"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SESSIONS.replace("</query>", "", 1), r"track.xml, line \d+: not XML \(mismatched tag\)"),
        (SESSIONS[:300], r"track.xml, line \d+: not XML"),
        ("", "not XML"),
        ("<html>\n</html>", "line 1: <html> instead of <sessiontrack"),
        ("<sessiontrack2013></sessiontrack2013>", "no session"),
        ('<!DOCTYPE t [\n<!ENTITY a "aaaa">\n]>\n<sessiontrack2013>&a;</sessiontrack2013>', "line 2: .* entities"),
        ('<!DOCTYPE t [\n<!ENTITY % a SYSTEM "file:///etc/passwd">\n]>\n<sessiontrack2013/>', "line 2: .* entities"),
    ],
)
def test_a_broken_file_is_one_line(write: Callable, staged: Callable, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        staged(trec.stage, [write(text)])
    assert "\n" not in str(caught.value)


def test_the_track_of_2013(real_data: Path, tmp_path: Path) -> None:
    if not (real_data / "trec-session-2013").is_dir():
        pytest.skip("CAPSE_DATA has no trec-session-2013")
    report = ingest(real_data / "trec-session-2013", tmp_path / "log")
    log = SearchLog.load(tmp_path / "log")
    assert len(log.sessions) == len(log.users) == 133
    assert len(log) + report.quarantined.pop("interaction without results") == 401
    assert report.quarantined == {}
    assert report.counts["clicks"]["kept"] == 586
    assert log.satisfied.sum() == 297
    assert (1 / log.position[log.satisfied]).mean() == pytest.approx(0.374, abs=5e-4)
    found = [evaluate(SE(), log, split=split, beside=False).per_click for split in ("train", "valid", "test")]
    clicks = sum(part["clicks"] for part in found)
    assert clicks == 297
    assert sum(part["clicks"] * part["mrr"] for part in found) / clicks == pytest.approx(0.374, abs=5e-4)
