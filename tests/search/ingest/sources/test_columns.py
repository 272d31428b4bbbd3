"""CSV, TSV and Parquet logs, one row per result."""

from __future__ import annotations

import datetime
import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from capse.errors import DataError
from capse.search.ingest import ingest
from capse.search.ingest.sources import delimited, detect, parquet
from capse.search.logs.search_log import SearchLog

HEADER = ["impression", "time", "user", "query", "position", "document", "clicked", "clicked_at", "dwell"]
ROWS = [
    ["i1", "1700000000", "ada", "big, data", "1", "a", "0", "", ""],
    ["i1", "1700000000", "ada", "big, data", "2", "b", "1", "1700000009", "31.5"],
    ["i2", "2023-11-14T22:15:00Z", "bob", "", "1", "a", "true", "", ""],
]


def as_csv(rows, delimiter=",", header=HEADER):
    lines = [header, *rows]
    return "\n".join(delimiter.join(f'"{cell}"' if delimiter in cell else cell for cell in line) for line in lines)


class TestDelimited:
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("log.csv", as_csv(ROWS)),
            ("log.csv", "\ufeff" + as_csv(ROWS).replace("\n", "\r\n")),
            ("log.tsv", as_csv(ROWS, "\t")),
            ("log.csv", as_csv(ROWS, ";")),
            ("log.csv", as_csv(ROWS, header=[name.upper() for name in HEADER])),
            ("log.csv", as_csv(ROWS, header=["impression_id", "timestamp", "user_id", *HEADER[3:]])),
        ],
        ids=["csv", "from Windows", "tsv", "semicolons", "upper case", "other names"],
    )
    def test_reads(self, tmp_path, staged, name, text):
        (tmp_path / name).write_bytes(text.encode())
        assert detect([tmp_path]) == "csv"
        self.check(staged(delimited.stage, [tmp_path / name]))

    def test_reads_what_is_compressed(self, tmp_path, staged):
        with gzip.open(tmp_path / "log.csv.gz", "wt") as file:
            file.write(as_csv(ROWS))
        assert detect([tmp_path / "log.csv.gz"]) == "csv"
        self.check(staged(delimited.stage, [tmp_path / "log.csv.gz"]))

    @staticmethod
    def check(found):
        head = {"impression": "i1", "time": 1_700_000_000_000_000, "user": "ada", "session": None, "query": "big, data"}
        assert found.results == [
            {**head, "position": 1, "document": "a", "split": None},
            {**head, "position": 2, "document": "b", "split": None},
            {
                "impression": "i2",
                "time": 1_700_000_100_000_000,
                "user": "bob",
                "session": None,
                "query": None,
                "position": 1,
                "document": "a",
                "split": None,
            },
        ]
        assert found.clicks == [
            {"impression": "i1", "document": "b", "time": 1_700_000_009_000_000, "dwell": 31.5, "event": None},
            {"impression": "i2", "document": "a", "time": None, "dwell": None, "event": None},
        ]
        assert not found.rejects

    def test_rows_that_cannot_be_read_are_rejected_with_their_numbers(self, tmp_path, staged):
        broken = [
            ["i3", "soon", "ada", "q", "1", "a", "0", "", ""],
            ["i3", "1700000000", "ada", "q", "first", "a", "0", "", ""],
            ["too", "few"],
            ["i3", "1700000000", "ada", "q", "1.5", "b", "0", "", ""],
            ["i3", "1700000000", "ada", "q", "1", "c", "perhaps", "", ""],
            ["i3", "1700000000", "ada", "q", "2", "d", "1", "then", ""],
            ["i3", "1700000000", "ada", "q", "3", "e", "1", "", "inf"],
            ["i3", "1700000000", "ada", "q", "4", "f", "0", "1700000001", ""],
        ]
        (tmp_path / "log.csv").write_text(as_csv([*ROWS, *broken]) + "\n\n")
        found = staged(delimited.stage, [tmp_path])
        rejects = {row["row"]: row["reason"] for row in found.rejects}
        assert rejects == {
            5: "an unreadable time",
            6: "an unreadable position",
            7: "2 fields instead of 9",
            8: "an unreadable position",
            9: "an unreadable clicked",
            10: "click with an unreadable time",
            11: "click with an unreadable dwell",
            12: "time of a click on a result that was not clicked",
        }
        # Where only the click is broken, the result stays.
        assert [row["document"] for row in found.results[3:]] == ["c", "d", "e", "f"]
        assert len(found.clicks) == 2
        assert '"document": "f"' in next(row["raw"] for row in found.rejects if row["row"] == 12)

    def test_bytes_that_are_no_text_are_rejected(self, tmp_path, staged):
        text = as_csv(ROWS).encode().replace(b"ada", b"\xff\xfe", 1)
        (tmp_path / "log.csv").write_bytes(text)
        found = staged(delimited.stage, [tmp_path])
        assert [(row["row"], row["reason"]) for row in found.rejects] == [(2, "a user that is not Unicode")]
        assert len(found.results) == 2

    def test_a_quoted_line_end_belongs_to_its_field(self, tmp_path, staged):
        rows = [["i1", "1700000000", "ada", '"two\nlines"', "1", "a", "0", "", ""], *ROWS[2:]]
        (tmp_path / "log.csv").write_text(as_csv(rows))
        assert [row["query"] for row in staged(delimited.stage, [tmp_path]).results] == ["two\nlines", None]

    @pytest.mark.parametrize("lost", ["document", "time", "position"])
    def test_a_missing_column_is_named(self, tmp_path, staged, lost):
        (tmp_path / "log.csv").write_text(as_csv([], header=[name for name in HEADER if name != lost]))
        with pytest.raises(DataError, match=f"log.csv: no column {lost}: a log has the columns impression"):
            staged(delimited.stage, [tmp_path])

    def test_documents_beside_the_log_come_with_it(self, tmp_path, staged):
        (tmp_path / "log.csv").write_text(as_csv(ROWS))
        (tmp_path / "documents.csv").write_text("doc,title,text\na,A,all of it\nb,,\n")
        found = staged(delimited.stage, [tmp_path / "log.csv"])
        assert found.documents == [
            {"document": "a", "title": "A", "text": "all of it", "terms": None},
            {"document": "b", "title": None, "text": None, "terms": None},
        ]


class TestParquet:
    def write(self, folder, **columns):
        table = {
            "impression": [1, 1, 2],
            "time": [datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)] * 3,
            "user": ["ada", "ada", "bob"],
            "query": ["q", "q", None],
            "position": pa.array([1, 2, 1], pa.int8()),
            "document": pa.array(["a", "b", "a"]).dictionary_encode(),
            **columns,
        }
        pq.write_table(pa.table(table), folder / "log.parquet")
        return folder / "log.parquet"

    def test_reads_columns_of_other_types(self, tmp_path, staged):
        clicked = {"clicked": [False, True, None], "dwell": pa.array([None, 31, None], pa.int32())}
        path = self.write(tmp_path, clicked_at=pa.nulls(3, pa.timestamp("ns")), **clicked)
        assert detect([path]) == "parquet"
        found = staged(parquet.stage, [path])
        assert [(row["impression"], row["position"], row["document"]) for row in found.results] == [
            ("1", 1, "a"),
            ("1", 2, "b"),
            ("2", 1, "a"),
        ]
        assert {row["time"] for row in found.results} == {1_700_000_000_000_000}
        assert found.clicks == [{"impression": "1", "document": "b", "time": None, "dwell": 31.0, "event": None}]

    @pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.timestamp("ms", "Europe/Paris"), pa.timestamp("ns")])
    def test_a_timestamp_of_any_unit_and_zone(self, tmp_path, staged, kind):
        moments = pa.array([1_700_000_000] * 3).cast(pa.timestamp("s")).cast(kind)
        found = staged(parquet.stage, [self.write(tmp_path, time=moments)])
        assert {row["time"] for row in found.results} == {1_700_000_000_000_000}

    @pytest.mark.parametrize("values", [[1.7e9] * 3, [1_700_000_000_000] * 3, ["2023-11-14 22:13:20"] * 3])
    def test_a_time_that_is_a_number_or_a_text(self, tmp_path, staged, values):
        found = staged(parquet.stage, [self.write(tmp_path, time=values)])
        assert {row["time"] for row in found.results} == {1_700_000_000_000_000}

    def test_a_click_time_alone_says_that_there_was_a_click(self, tmp_path, staged):
        found = staged(parquet.stage, [self.write(tmp_path, clicked_at=[None, 1_700_000_005, None])])
        assert [(row["document"], row["time"]) for row in found.clicks] == [("b", 1_700_000_005_000_000)]

    def test_broken_rows_are_rejected(self, tmp_path, staged):
        path = self.write(tmp_path, position=pa.array([1.0, 1.5, None]), time=["2023-11-14", "x", None])
        found = staged(parquet.stage, [path])
        assert [(row["row"], row["reason"]) for row in found.rejects] == [(2, "an unreadable time")]
        assert [row["position"] for row in found.results] == [1, None]

    def test_a_file_that_is_none_is_one_line(self, tmp_path, staged):
        (tmp_path / "log.parquet").write_bytes(b"PAR1 but not really")
        with pytest.raises(DataError, match=r"log.parquet: cannot be read \(.*check the file") as caught:
            staged(parquet.stage, [tmp_path])
        assert "\n" not in str(caught.value)


def test_every_form_of_one_log_gives_the_same_log(tmp_path):
    columns = list(zip(*ROWS, strict=True))
    table = pa.table({name: [value or None for value in column] for name, column in zip(HEADER, columns, strict=True)})
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv/log.csv").write_text(as_csv(ROWS))
    (tmp_path / "parquet").mkdir()
    pq.write_table(table, tmp_path / "parquet/log.parquet")
    logs = []
    for kind in ("csv", "parquet"):
        ingest(tmp_path / kind, tmp_path / f"{kind}-log")
        logs.append(pq.read_table(tmp_path / f"{kind}-log/results.parquet"))
    assert logs[0].equals(logs[1])
    log = SearchLog.load(tmp_path / "csv-log")
    assert (log.users, log.queries) == (["ada", "bob"], ["big, data", ""])
