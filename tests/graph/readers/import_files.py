"""Files that an import may be given: whole ones, mutated ones, and bytes that were never meant to be triples."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import json
import lzma
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

_ROWS = [(f"http://x/e{i}", f"http://x/r{i % 2}", f"http://x/e{(i * 3 + 1) % 7}") for i in range(20)]
_HEADERS = [
    "", "head,relation,tail", "Source,Edge,Target", "h,r,t", ",,", "head,head,head", "relation,head", "tail",
    "object,since,predicate,subject", '"head","relation","tail"', "head,relation,tail,", " Head , Relation,TAIL ",
]  # fmt: skip
_LINE_ENDS = ["\n", "\r\n", "\r", "\n\n", "\n\r", "\x0b", "\x85", "\u2028"]
_ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"]
_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda content: pa.compress(content, codec="zstd", asbytes=True),
}
_PIECES = [
    b"\0", b"\xff", b"\xef\xbb\xbf", codecs.BOM_UTF16_LE, b"\t", b",", b";", b'"', b"\\", b"\r", b"\n", b"\x1b[31m",
    b"\xed\xa0\x80", b"<", b">", b"&", b"{", b"[", b"]]>", b"@prefix", b"_:b", b'"x"@en', b"\\u0000", b"\\ud800",
    b"null", b"NaN", b"1e999", b"-1", b"99999999999999999999", b"x" * 70_000, b"x" * 1_100_000,
]  # fmt: skip
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"

_labels = st.text(max_size=12) | st.sampled_from([row[0] for row in _ROWS])
_rows = (
    st.just(_ROWS) | st.lists(st.tuples(_labels, _labels, _labels), max_size=8) | st.just([*_ROWS, ("ü", "€", "😀")])
)


@st.composite
def _delimited(draw: st.DrawFn, usual: str) -> bytes:
    separator = draw(st.sampled_from([*usual * 6, "\t", ",", ";", "|", " "]))
    end = st.sampled_from(_LINE_ENDS) if draw(st.booleans()) else st.just(draw(st.sampled_from(_LINE_ENDS[:3])))
    header = draw(st.sampled_from(_HEADERS)).replace(",", separator)
    lines = [header] * bool(header) + [separator.join(row) for row in draw(_rows)]
    text = "".join(line + draw(end) for line in lines)
    return text.encode(draw(st.sampled_from(["utf-8"] * 6 + _ENCODINGS)), "replace")


@st.composite
def _json_lines(draw: st.DrawFn) -> bytes:
    keys = draw(st.sampled_from([["head", "relation", "tail"], ["s", "p", "o"], ["relation", "head"], ["x"], None]))
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    values = st.lists(scalars | st.lists(scalars, max_size=3), max_size=4)
    rows = [*draw(_rows), *draw(st.just([]) | st.lists(values, max_size=2))]
    things = [row if keys is None else dict(zip(keys, row, strict=False)) for row in rows]
    return "\n".join(map(json.dumps, things)).encode()


@st.composite
def _parquet(draw: st.DrawFn) -> bytes:
    kinds = [
        pa.array(["a", "b"]), pa.array([1, 2]), pa.array([None, "b"]), pa.array([1.5, float("nan")]),
        pa.array([[1], []]), pa.array(["a", ""]).dictionary_encode(), pa.array([b"\xff", b"a"]), pa.nulls(2),
        pa.array([True, False]),
        pa.array([2**63, 1], pa.uint64()), pa.array(["a", "b"], pa.large_string()), pa.array([{"a": 1}, None]),
    ]  # fmt: skip
    columns = draw(st.just(kinds[:1] * 3) | st.lists(st.sampled_from(kinds), max_size=5))
    names = ["head", "relation", "tail", "since", "head"] if draw(st.booleans()) else ["a", "", "a", "\0", "e"]
    sink = io.BytesIO()
    table = pa.Table.from_arrays(columns, names[: len(columns)])
    pq.write_table(table.slice(0, draw(st.integers(0, 2))), sink)
    return sink.getvalue()


def _statements(form: str) -> str:
    if form == ".ttl":
        return "@prefix : <http://x/> .\n:a :r :b, [ :r (1 2) ] ; :n 'x'@en .\n:b :r :a .\n"
    if form == ".jsonld":
        return json.dumps([{"@id": head, relation: [{"@id": tail}, "x"]} for head, relation, tail in _ROWS])
    if form == ".rdf":
        inside = "".join(
            f'<rdf:Description rdf:about="{head}"><x:r rdf:resource="{tail}"/></rdf:Description>'
            for head, _, tail in _ROWS
        )
        return f'<?xml version="1.0"?><rdf:RDF xmlns:rdf="{_RDF}" xmlns:x="http://x/">{inside}</rdf:RDF>'
    graph = " <http://x/g>" if form == ".nq" else ""
    return "".join(" ".join(f"<{iri}>" for iri in row) + f"{graph} .\n" for row in _ROWS)


_WHOLE: dict[str, st.SearchStrategy[bytes]] = {
    **dict.fromkeys((".tsv", ".txt", ".dat"), _delimited("\t")),
    ".csv": _delimited(",;"),
    **dict.fromkeys((".jsonl", ".ndjson"), _json_lines()),
    ".parquet": _parquet(),
    **{form: st.just(_statements(form).encode()) for form in (".nt", ".nq", ".ttl", ".rdf", ".jsonld")},
}


@st.composite
def _damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Some bytes changed, pieces put in, parts cut out or said twice."""
    for _ in range(draw(st.sampled_from([0, 0, 0, 0, 1, 1, 2, 3]))):
        start, end = sorted(draw(st.tuples(*[st.integers(0, len(content))] * 2)))
        piece = draw(st.sampled_from(_PIECES) | st.binary(max_size=4) | st.just(content[start:end] * 2))
        content = content[:start] + piece + content[draw(st.sampled_from([start, start + 1, end, len(content)])) :]
    return content


_TEXTS = st.sampled_from(["", "#", ";", "|", "tab", ",", "\0", "\n", '"', "ü", "1", "ab", "😀", "\ud800"])
_COLUMNS = ["1,2,3", "3,3,3", "0,1,2", "9,8,7", "head,relation,tail", "a", ",,", "²,1,2", "1" * 5000 + ",1,2"]
_CODECS = [*_ENCODINGS, "rot13", "undefined", "idna", "unicode_escape", "utf-7", "hz", "a\0b", "", "no"]
_ANY_FILE = [[], ["--valid", "0"], ["--valid", "0", "--test", "0"], ["--allow-unseen"], ["--local-names"]]
_options = st.sampled_from(_ANY_FILE)
_layouts = st.lists(
    st.just(("--trim",))
    | st.tuples(st.sampled_from(["--delimiter", "--comment"]), _TEXTS)
    | st.tuples(st.just("--columns"), st.sampled_from(_COLUMNS))
    | st.tuples(st.just("--encoding"), st.sampled_from(_CODECS)),
    max_size=3,
).map(lambda chosen: [text for option in chosen for text in option])


@st.composite
def imports(draw: st.DrawFn) -> tuple[str, bytes, list[str]]:
    """A file's name, its content and the options of its import."""
    form, compression = draw(st.sampled_from(list(_WHOLE))), draw(st.sampled_from([*[""] * 4, *_COMPRESS]))
    kind = draw(st.sampled_from([*["own"] * 12, "another's", "random"]))
    other = draw(st.sampled_from(list(_WHOLE)))
    content = draw(st.binary(max_size=200) if kind == "random" else _WHOLE[other if kind == "another's" else form])
    packed = _COMPRESS[compression](draw(_damaged(content)))
    if compression and draw(st.integers(0, 3)) == 3:
        packed = draw(_damaged(packed))
    described = draw(st.sampled_from([False] * 5 + [True] * (6 if form in (".tsv", ".txt", ".csv", ".dat") else 1)))
    return f"facts{form}{compression}", packed, draw(_options) + (draw(_layouts) if described else [])
