"""Small graphs with known answers, and the real data where it is at hand."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import numba
import pytest
import torch
from hypothesis import Phase, settings
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from capse.cli import main
from capse.graph.dataset import Graph
from capse.runs.folder import RunFolder

RunCommand = Callable[..., tuple[int, str, str]]

torch.set_num_threads(2)

# Where Ctrl-C is ignored, as in the background of a shell, the processes that a test starts would ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Every run tries the same examples, so that a change and not chance turns a test red, and a failure is reported at once
# instead of being shrunk for minutes. `pytest --hypothesis-profile=explore` draws others, and shrinks what fails.
settings.register_profile(
    "steady",
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("steady")


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Everything that torch and numba do, in one thread."""
    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    yield
    torch.set_num_threads(before[0])
    numba.set_num_threads(before[1])


@pytest.fixture
def run_command(capsys: pytest.CaptureFixture[str]) -> RunCommand:
    """Runs ``capse ARGUMENTS`` and gives its exit status, standard output and standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit:
            main([str(argument) for argument in arguments])
        output, errors = capsys.readouterr()
        assert isinstance(exit.value.code, int | None)
        return exit.value.code or 0, output, errors

    return call


@pytest.fixture(scope="session")
def planted() -> Graph:
    """A graph whose missing facts follow from the others: 8 regions, each with a market, a school and 10 towns.

    Everyone of a region goes to its own market and school. For two towns of each region the market is hidden, and can
    be inferred from where the town lies and where its children go to school.
    """
    train: list[tuple[str, str, str]] = []
    valid: list[tuple[str, str, str]] = []
    test: list[tuple[str, str, str]] = []
    for town in range(80):
        region, number = town % 8, town // 8
        name = f"town {town:02}"
        train.append((name, "lies in", f"region {region}"))
        train.append((name, "schools at", f"school {region}"))
        hidden = valid if number == 8 else test if number == 9 else train
        hidden.append((name, "trades at", f"market {region}"))
    return Graph.from_triples(train, valid, test, name="planted")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets, or a skip that says what is missing."""
    folder = os.environ.get("CAPSE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("CAPSE_DATA names no folder with wn18rr and fb15k-237")
    return Path(folder)


InstallPackage = Callable[[str, str, str], None]


@pytest.fixture
def install_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InstallPackage:
    """Install a package with an entry point ``group``, ``name = module:attribute``, and the module's ``code``."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))

    def install(group: str, entry: str, code: str) -> None:
        module = entry.partition("=")[2].partition(":")[0].strip()
        (folder / f"{module}.py").write_text(code)
        monkeypatch.delitem(sys.modules, module, raising=False)
        metadata = folder / f"{module}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")

    return install


class LiveFloats(TorchDispatchMode):
    """Follows every tensor that an operation makes while it lives; ``peak`` is the most floats held at a time."""

    def __init__(self, model):
        super().__init__()
        self.own = {StorageWeakRef(tensor.untyped_storage()) for tensor in model.state_dict().values()}
        self.sizes = {}
        self.peak = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                reference = StorageWeakRef(tensor.untyped_storage())
                if reference not in self.own:  # views of the model's tables and weights hold nothing new
                    self.sizes[reference] = tensor.untyped_storage().nbytes() // 4
        self.sizes = {reference: size for reference, size in self.sizes.items() if not reference.expired()}
        self.peak = max(self.peak, sum(self.sizes.values()))
        return result


@pytest.fixture
def live_floats() -> type[LiveFloats]:
    """A context that measures what a model's answer holds beside the model."""
    return LiveFloats


VOID = {"meta"}


class Page(HTMLParser):
    """Everything a test asks of a page; raises where elements are not properly nested."""

    def __init__(self, text):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return "\n".join(self.words)

    @property
    def prose(self):
        """The text, whatever its line breaks."""
        return " ".join(self.text.split())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="session")
def read_page():
    """A reader that insists on well-formed pages."""
    return Page


@pytest.fixture(scope="session")
def state_of():
    """Everything that two equal runs must share: weights bit by bit, and metrics but for the clock."""

    def state(path):
        run = RunFolder(path)
        clock = ("seconds", "examples_per_second")
        metrics = [{k: v for k, v in record.items() if k not in clock} for record in run.read_metrics()]
        results = json.loads(run.results.read_text())
        kept = {key: results[key] for key in ("epochs", "best_epoch", "best_validation")}
        return run.model.read_bytes(), metrics, kept

    return state
