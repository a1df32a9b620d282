"""Options, tables and progress bars that several commands share."""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contradiction import paths
from contradiction.errors import InputError, for_terminal
from contradiction.inputs.views import WINDOWED, WINDOWINGS
from contradiction.labels import CATEGORIES

if TYPE_CHECKING:
    from datasets import Dataset
    from rich.progress import Progress

    from contradiction.chats.names import Speakers
    from contradiction.decision import Rule
    from contradiction.io.tables import Table

SHIPPED = str(paths.SHIPPED)
SECONDS_BETWEEN_LINES = 30  # of progress, where stderr is no terminal

ModelOption = Annotated[
    str, typer.Option(envvar="CDCONV_MODEL", help="A model folder or Hub id.", show_default="the shipped detector")
]
RevisionOption = Annotated[str | None, typer.Option(help="The branch, tag or commit of a model on the Hub.")]
BackendOption = Annotated[
    str,
    typer.Option(
        envvar="CDCONV_BACKEND",
        metavar="<torch|onnx|openvino|auto>",
        help="auto: the fastest of torch, onnx and openvino. `cdconv export` writes the file for onnx and openvino.",
    ),
]
PrecisionOption = Annotated[
    str,
    typer.Option(
        envvar="CDCONV_PRECISION",
        metavar="<auto|fp32|bf16|fp16|int8>",
        help="auto: bf16 on a CPU with instructions for it, and for a causal detector also on a GPU with them, "
        "otherwise fp32. bf16 takes half the time and changes few labels. fp16 needs a GPU. int8 is for a causal "
        "detector on a CPU.",
    ),
]
ExactPrecisionOption = Annotated[
    str, typer.Option(metavar="<auto|fp32|bf16|fp16|int8>", help="auto: as in `cdconv detect`; fp32 is exact.")
]
DeviceOption = Annotated[
    str | None,
    typer.Option(help="The device, as in torch: cpu, cuda, cuda:1 or mps.", show_default="a CUDA GPU if there is one"),
]
EncodingOption = Annotated[
    str | None, typer.Option(help="The encoding of the file, for instance gb18030.", show_default="utf-8")
]
UserNameOption = Annotated[
    list[str] | None,
    typer.Option(help="A further name of the user; can be repeated. Usual ones are known, such as 用户."),
]
BotNameOption = Annotated[
    list[str] | None,
    typer.Option(help="A further name of the judged bot; can be repeated. Usual ones are known, such as 机器人."),
]
# The settings of an operator, see ``contradiction.settings.Settings``; ``given_settings`` reads them.
ThresholdOption = Annotated[
    str | None,
    typer.Option(
        help="The lowest probability at which a reply is called a contradiction. Or 'precision>=0.8': the lowest "
        "threshold with this precision on validation."
    ),
]
PriorOption = Annotated[
    float | None,
    typer.Option(help="The fraction of contradictions among your replies, for instance 0.1. Use it with --threshold."),
]
CategoryOption = Annotated[
    list[str] | None,
    typer.Option(help=f"Call only this kind of contradiction: {', '.join(CATEGORIES)}; can be repeated."),
]
WindowingOption = Annotated[
    str | None, typer.Option(help=f"How earlier turns are read: {', '.join(WINDOWINGS)}.", show_default=WINDOWED)
]
MaxTurnsOption = Annotated[
    int, typer.Option(min=0, help="The maximum number of earlier turns that a reply is compared with; 0 means all.")
]
DATA = "cdconv"  # the data repo that `cdconv data build` writes
DataOption = Annotated[str, typer.Option(help="The data repo: a folder or a Hub id.")]
ConfigOption = Annotated[
    str | None, typer.Option(help="A config of the data. By default the one that the model was trained on.")
]
ViewOption = Annotated[
    str | None, typer.Option(help="The view (the utterances to read) of a model that does not name its view.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask before requests are sent to a language model.")]


def speakers_of(user_name: list[str] | None, bot_name: list[str] | None) -> "Speakers":
    """The speakers of the options ``--user-name`` and ``--bot-name``."""
    from contradiction.chats.names import Speakers

    return Speakers(tuple(user_name or ()), tuple(bot_name or ()))


def data_option(data: str) -> str:
    """The ``--data`` option for the next command, after a space; empty for the default data repo."""
    return "" if data == DATA else f" --data {data}"


def unseen_validation(models: Iterable[Path], data: str, config: str, otherwise: str) -> "Dataset":
    """The validation split; raises InputError, with the consequence in words, if a model was trained on its rows."""
    from contradiction.data.splits import load_labelled_split, name_if_known
    from contradiction.training import leakage, record

    rows = load_labelled_split(data, config, "validation")
    for model in models:
        if why := leakage.describe_leakage(record.of_model(model), config, "validation", name_if_known(data)):
            raise InputError(f"{model} {why}: {otherwise}; choose data that it was not trained on")
    return rows


def limit_threads(backend: str) -> None:
    """Keeps PyTorch, where it may be the backend, to the cores that this process may use."""
    from contradiction.inference.base import AUTO
    from contradiction.inference.torch_backend import TorchBackend, use_allowed_cores

    if backend in (TorchBackend.NAME, AUTO):
        use_allowed_cores()


def given_settings(**options: Any) -> dict[str, Any]:
    """The settings that are given, checked before the model is loaded."""
    from contradiction.settings import Settings, from_options

    settings = from_options(options)
    Settings(**settings)
    return settings


def say(message: str) -> None:
    """Writes a message to stderr, in one line."""
    typer.echo(f"cdconv: {for_terminal(' '.join(message.split()))}", err=True)


def say_precision(precision: str, asked: str) -> None:
    """Says that a detector computes in another precision than fp32, unless it was asked for."""
    if precision not in (asked, "fp32"):
        say(f"computes in {precision}, the fastest here; --precision fp32 is exact")


def say_if_few(folder: Path, rule: "Rule", rows: int) -> None:
    """Says that the rule of a folder was fitted to too few rows for a curve of thresholds."""
    from contradiction.decision import MIN_FOR_CURVE as LEAST

    if rule.prior and not rule.curve:
        found = round(rule.prior * rows)
        say(
            f"{folder}: its rule was fitted to few rows; a threshold such as precision>=0.7 needs at least {LEAST} "
            f"contradictions and {LEAST} other rows, and there are {found} and {rows - found}, so set a number"
        )


def show(*tables: "Table", stderr: bool = False) -> None:
    """Prints tables under their titles, on stdout or stderr."""
    from contradiction.io.tables import console

    out = console(stderr=stderr)
    for table in tables:
        out.print(table.title, style="bold", highlight=False, markup=False, emoji=False)
        out.print(table.rich())


class Bar:
    """What ``counting`` yields: the progress of a command, with the callbacks that the library calls."""

    def __init__(self, progress: "Progress", title: str, total: float | None, lines: bool) -> None:
        self._progress, self._task = progress, progress.add_task(title, total=total)
        self._title, self._lines, self._printed = title, lines, time.monotonic()

    def start(self, total: float) -> None:
        """Sets how much there is to do."""
        self._progress.update(self._task, total=total)

    def advance(self, done: float) -> None:
        """Adds to what is done."""
        self.move(self._progress.tasks[0].completed + done)

    def move(self, done: float, total: float | None = None) -> None:
        """Sets what is done, and perhaps how much there is to do."""
        self._progress.update(self._task, completed=done, total=total)
        total = self._progress.tasks[0].total
        if self._lines and total and time.monotonic() - self._printed > SECONDS_BETWEEN_LINES:
            self._printed = time.monotonic()
            say(f"{self._title}: {min(done / total, 1):.0%} done")

    def confirm(self, question: str) -> bool:
        """Asks a question whose answer is yes or no."""
        self._progress.stop()
        try:
            return typer.confirm(question, err=True)
        except typer.Abort:
            return False
        finally:
            self._progress.start()


@contextmanager
def counting(title: str, total: float | None = None, *, in_bytes: bool = False, shown: bool = True) -> Iterator[Bar]:
    """Shows progress on stderr while the block runs: a bar on a terminal, and elsewhere a line from time to time."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn() if in_bytes else MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not (shown and console.is_terminal),  # a file would get an empty line
    ) as progress:
        yield Bar(progress, title, total, lines=shown and not console.is_terminal)


@contextmanager
def asking(bar: Bar, yes: bool) -> Iterator[None]:
    """Within the block, the cost of requests to a language model is shown, and a question asked without ``yes``.

    Raises:
        InputError: the answer is no, or nobody is at the terminal.
    """
    from contradiction.methods.llm_judge import BEFORE_REQUESTS

    def confirm(estimate: Mapping[str, Any]) -> None:
        cost = "" if estimate["cost"] is None else f" for {estimate['cost']:,.2f}"
        text = (
            f"{estimate['requests']:,} requests to {estimate['model']} with about {estimate['prompt_tokens']:,} tokens "
            f"to read{cost}, and what the model thinks"
        )
        if yes:
            say(text)
        elif not sys.stdin.isatty():
            raise InputError(f"{text}; --yes sends them")
        elif not bar.confirm(f"cdconv: {text}. Send them?"):
            raise InputError("no request was sent")

    token = BEFORE_REQUESTS.set(confirm)
    try:
        yield
    finally:
        BEFORE_REQUESTS.reset(token)
