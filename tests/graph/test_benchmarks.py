"""Finding and downloading datasets, from a server on this machine that can behave badly."""

import hashlib
import http.server
import io
import json
import tarfile
import threading
from pathlib import Path

import pytest

from capse.errors import DownloadError, UnknownNameError
from capse.graph.benchmarks import BENCHMARKS, Benchmark, cache_folder, find_dataset, get_dataset
from capse.graph.dataset import load_graph

LINES = b"a\tr\tb\r\nb\tr\tc\r\n"


def archive(*names):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size = len(LINES)
            tar.addfile(entry, io.BytesIO(LINES))
    return content.getvalue()


def tiny(*sha256):
    """A set of three entities, in an archive."""
    sizes = {"entities": 3, "relations": 1, "train": 2, "valid": 2, "test": 2}
    members = ("train.txt", "valid.txt", "test.txt")
    return Benchmark("tiny", "https://x.org/Tiny.tar.gz", sha256, sizes, members, "not stated")


class Server(http.server.ThreadingHTTPServer):
    """Serves one archive, and ``files`` by their paths.

    ``cut_after`` bytes of an answer it hangs up, ``ranges`` says if it knows HTTP ranges.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = archive("../../evil", "train.txt", "valid.txt", "test.txt", "extra.txt")
        self.files = {}
        self.cut_after = None
        self.ranges = True
        self.status = 200
        self.asked = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        server = self.server
        wanted = self.headers.get("Range")
        server.asked.append((self.path, wanted))
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and server.ranges else 0
        content = server.files.get(self.path, server.content)
        if server.status != 200 or start >= len(content):
            self.send_error(server.status if server.status != 200 else 416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start:][: server.cut_after])

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch, tmp_path):
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("CAPSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CAPSE_MIRROR", server.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("CAPSE_DATA", raising=False)
    checksum = hashlib.sha256(server.content).hexdigest()
    monkeypatch.setitem(BENCHMARKS, "tiny", tiny(checksum))
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_download_and_load(server, tmp_path):
    assert find_dataset("tiny") is None
    graph = load_graph("tiny")
    assert (graph.name, len(graph.entities), len(graph.train)) == ("tiny", 3, 2)
    assert find_dataset("tiny") == tmp_path / "cache" / "tiny"
    load_graph("tiny")
    assert server.asked == [("/Tiny.tar.gz", None)]  # once


def test_only_the_known_members_are_unpacked(server, tmp_path):
    get_dataset("tiny")
    files = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert files == ["cache/tiny/test.txt", "cache/tiny/train.txt", "cache/tiny/valid.txt"]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_cut_download_goes_on_where_it_stopped(server, tmp_path, ranges):
    server.ranges, server.cut_after = ranges, 100
    with pytest.raises(DownloadError, match=r"ended after 100 of \d+ bytes\): try again"):
        get_dataset("tiny")
    assert (tmp_path / "cache" / "Tiny.tar.gz.part").stat().st_size == 100
    server.cut_after = None
    assert (get_dataset("tiny") / "train.txt").read_bytes() == LINES
    assert [wanted for _, wanted in server.asked] == [None, "bytes=100-"]


def test_a_complete_part_is_used(server, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "Tiny.tar.gz.part").write_bytes(server.content)
    assert (get_dataset("tiny") / "test.txt").exists()


@pytest.mark.parametrize("begun", [b"", b"something else"])
def test_wrong_content_is_refused_and_removed(server, tmp_path, begun):
    if not begun:
        server.content = b"<html>Please log in</html>"
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "Tiny.tar.gz.part").write_bytes(begun)
    with pytest.raises(DownloadError, match="is not the expected archive"):
        get_dataset("tiny")
    assert list((tmp_path / "cache").iterdir()) == []


def test_an_archive_without_a_member(server, monkeypatch):
    server.content = archive("train.txt")
    checksum = hashlib.sha256(server.content).hexdigest()
    monkeypatch.setitem(BENCHMARKS, "tiny", tiny(checksum))
    with pytest.raises(DownloadError, match=r"no file valid\.txt in it"):
        get_dataset("tiny")
    assert find_dataset("tiny") is None


def test_the_server_says_no(server):
    server.status = 404
    with pytest.raises(DownloadError, match=r"cannot download http://127.*Tiny\.tar\.gz \(Not Found\)"):
        get_dataset("tiny")


def test_offline_the_error_says_what_to_put_where(server, monkeypatch, tmp_path):
    monkeypatch.setenv("CAPSE_MIRROR", "http://127.0.0.1:1")
    with pytest.raises(DownloadError) as caught:
        get_dataset("tiny")
    folder = tmp_path / "cache" / "tiny"
    assert f"put train.txt, valid.txt, test.txt from that archive into {folder}" in str(caught.value)
    folder.mkdir()
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_bytes(LINES)
    assert len(load_graph("tiny").train) == 2


def test_own_data_goes_before_the_cache(server, monkeypatch, tmp_path):
    (tmp_path / "own" / "tiny").mkdir(parents=True)
    monkeypatch.setenv("CAPSE_DATA", str(tmp_path / "own"))
    assert get_dataset("tiny") == tmp_path / "own" / "tiny"
    assert server.asked == []


def test_the_cache_folder(monkeypatch):
    monkeypatch.delenv("CAPSE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder() == Path("/x/capse")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder().is_relative_to(Path.home())


def test_unknown_dataset():
    with pytest.raises(UnknownNameError, match="unknown dataset 'fb15k237': did you mean 'fb15k-237'"):
        get_dataset("fb15k237")


class TestAFolderOfFiles:
    FACTS = (b"a\tr\tb\n", b"b\tr\tc\n", b"c\tr\ta\n")

    @pytest.fixture
    def small(self, server, monkeypatch):
        """A set whose files the server has, of unknown checksums."""
        return self.offer(server, monkeypatch, (), self.FACTS)

    def offer(self, server, monkeypatch, sha256, facts, members=("train.txt", "later.txt", "test.txt")):
        monkeypatch.setitem(BENCHMARKS, "small", Benchmark("small", "https://x.org/small/", sha256, {}, members, ""))
        server.files = {f"/small/{member}": content for member, content in zip(members, facts, strict=True)}

    def test_is_fetched_file_by_file_and_given_our_names(self, server, small, tmp_path):
        graph = load_graph("small")
        assert (len(graph.train), len(graph.valid), len(graph.test)) == (1, 1, 1)
        assert [path for path, _ in server.asked] == ["/small/train.txt", "/small/later.txt", "/small/test.txt"]
        names = sorted(path.name for path in (tmp_path / "cache" / "small").iterdir())
        assert names == ["test.txt", "train.txt", "valid.txt"]

    def test_is_checked_file_by_file_where_checksums_are_known(self, server, monkeypatch, tmp_path):
        digests = tuple(hashlib.sha256(facts).hexdigest() for facts in self.FACTS)
        self.offer(server, monkeypatch, digests, [*self.FACTS[:2], b"changed\tr\tb\n"])
        with pytest.raises(DownloadError, match=r"small/test\.txt is not the expected file \(its sha256 differs\)"):
            get_dataset("small")
        assert list((tmp_path / "cache").iterdir()) == []
        self.offer(server, monkeypatch, digests, self.FACTS)
        assert (get_dataset("small") / "test.txt").read_bytes() == self.FACTS[2]

    def test_the_first_download_is_trusted_shown_and_compared_with_the_next(
        self, server, small, tmp_path, run_command, monkeypatch
    ):
        def listed():
            _, output, _ = run_command("data", "list", "--json")
            return next(row["checksum"] for row in json.loads(output) if row["name"] == "small")

        assert listed() == "untried"
        status, output, errors = run_command("data", "get", "small")
        trusted = tmp_path / "cache" / "trusted.json"
        assert (status, output.strip()) == (0, str(tmp_path / "cache" / "small"))
        assert f"no checksum of small is known: what came is trusted from now on, as {trusted} remembers" in errors
        assert listed().startswith("first use, 20")
        assert run_command("data", "get", "small")[2] == ""  # it is here

        remembered = json.loads(trusted.read_text())["small"]
        assert remembered["sha256"] == [hashlib.sha256(facts).hexdigest() for facts in self.FACTS]
        self.remove(tmp_path / "cache" / "small")
        self.offer(server, monkeypatch, "", [*self.FACTS[:2], b"changed\tr\tb\n"])
        with pytest.raises(DownloadError, match=r"is not what it was on 20.*remove 'small' from .*trusted\.json"):
            get_dataset("small")
        assert [path.name for path in (tmp_path / "cache").iterdir()] == ["trusted.json"]
        self.offer(server, monkeypatch, (), self.FACTS)
        get_dataset("small")
        assert json.loads(trusted.read_text())["small"] == remembered

    def test_what_is_remembered_must_be_readable(self, server, small, tmp_path):
        (tmp_path / "cache").mkdir()
        (tmp_path / "cache" / "trusted.json").write_text('{"small": 1}')
        with pytest.raises(DownloadError, match=r"trusted\.json is damaged"):
            get_dataset("small")

    def remove(self, folder):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()

    def test_a_graph_to_train_on_alone(self, server, monkeypatch):
        self.offer(server, monkeypatch, (), self.FACTS[:1], members=("train.txt",))
        graph = load_graph("small")
        assert (len(graph.train), len(graph.valid), len(graph.test)) == (1, 0, 0)


def test_what_is_no_archive_is_not_trusted(server, monkeypatch, tmp_path):
    server.content = b"<html>Please log in</html>"
    monkeypatch.setitem(BENCHMARKS, "tiny", tiny())
    with pytest.raises(DownloadError, match=r"Tiny\.tar\.gz is no archive"):
        get_dataset("tiny")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize(("name", "folder"), [("kinship", "kinships"), ("umls", "umls"), ("nations", "nations")])
def test_the_small_sets_are_those_that_pykeen_ships(server, name, folder):
    """Bytes, checksums and published counts at once."""
    shipped = Path(pytest.importorskip("pykeen.datasets").__file__).parent / folder
    server.files = {
        f"/{name}/{split}.txt": (shipped / f"{split}.txt").read_bytes() for split in ("train", "valid", "test")
    }
    graph, record = load_graph(name), BENCHMARKS[name]
    found = [len(part) for part in (graph.entities, graph.relations, graph.train, graph.valid, graph.test)]
    assert dict(zip(record.sizes, found, strict=True)) == record.sizes


def test_every_record_is_complete():
    for name, record in BENCHMARKS.items():
        assert name == record.name
        assert record.url.startswith("https://")
        assert record.licence
        if record.tried:
            assert len(record.sha256) == (len(record.members) if record.is_folder else 1)
            assert all(len(digest) == 64 for digest in record.sha256)
    assert {"codex-s", "codex-m", "codex-l", "yago3-10", "nell-995", "wikidata5m", "ilpc-small-ind"} <= set(BENCHMARKS)
    assert {
        f"grail-{g}-v{v}{i}" for g in ("wn18rr", "fb15k-237", "nell-995") for v in range(1, 5) for i in ("", "-ind")
    } <= set(BENCHMARKS)
