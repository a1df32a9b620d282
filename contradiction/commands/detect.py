"""``cdconv detect``: chats in, verdicts out."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from contradiction.commands.options import SHIPPED, ModelOption, demand_model
from contradiction.commands.terminal import progress
from contradiction.errors import InputError
from contradiction.labels import NON_CONTRADICTION
from contradiction.verdict import is_unchecked

if TYPE_CHECKING:
    from contradiction.chats.readers import Chats, Entry
    from contradiction.chats.streams import Answered, Tally
    from contradiction.chats.writers import AnswerFiles, LineFile
    from contradiction.settings import Settings
    from contradiction.verdict import Verdict

NOT_JUDGED = "not judged"
SHOWN = 500  # characters of a cell of the table
REPLACED = "was there already; what is rejected now takes its place"


class Kind(StrEnum):
    """Verdicts that can be asked for, or ruled out."""

    CONTRADICTION = "contradiction"
    UNCHECKED = "unchecked"


# Of a verdict, and how many of its chat it is one of.
TESTS: dict[Kind, Callable[["Verdict", int], bool | None]] = {
    Kind.CONTRADICTION: lambda verdict, replies: verdict.is_contradiction,
    Kind.UNCHECKED: lambda verdict, replies: is_unchecked(verdict.checked, verdict.reason, replies),
}


def detect(
    file: Annotated[str, typer.Argument(help="A file of chats, or - for standard input.")] = "-",
    model: ModelOption = SHIPPED,
    text: Annotated[
        str | None, typer.Option(help='One chat instead of a file: \'[{"role": "user", "content": "…"}, …]\'.')
    ] = None,
    format: Annotated[
        Literal["auto", "jsonl", "json", "csv", "tsv", "parquet"],
        typer.Option(help="Of the file; auto goes by its name, and takes standard input for jsonl."),
    ] = "auto",
    scan: Annotated[bool, typer.Option("--scan", help="Judge every reply of a chat, not only the last.")] = False,
    threshold: Annotated[
        str | None,
        typer.Option(help="Call a contradiction from this probability on; or 'precision>=0.8', as on validation."),
    ] = None,
    prior: Annotated[
        float | None,
        typer.Option(help="The share of contradictions among your replies, for instance 0.1; goes with --threshold."),
    ] = None,
    category: Annotated[
        list[str] | None, typer.Option(help="A contradiction to call, and no other; may be given again.")
    ] = None,
    windowing: Annotated[
        str | None,
        typer.Option(
            "--windowing", "--reading", help="How earlier turns are read: windowed, structured, unstructured."
        ),
    ] = None,
    max_turns: Annotated[int | None, typer.Option(help="Earlier turns that are read at most.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Inputs a forward pass.")] = 32,
    precision: Annotated[
        str, typer.Option(help="fp32; bf16: faster where the hardware has it, a little less exact; fp16: on a GPU.")
    ] = "fp32",
    out: Annotated[
        Path | None, typer.Option(help="Write the verdicts here; what is rejected, to OUT.rejected.jsonl.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue what a killed run left in --out.")] = False,
    table: Annotated[bool, typer.Option("--table", help="Show a table instead of JSON lines.")] = False,
    fail_on: Annotated[
        list[Kind] | None,
        typer.Option(help="Exit with 1 if there is any; may be given again."),
    ] = None,
    only: Annotated[
        list[Kind] | None, typer.Option(help="Show these verdicts and no others; may be given again. Not with --out.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No bar and no summary on stderr, only errors.")] = False,
) -> None:
    """Judges the last reply of each chat: chats in, a verdict a line out, in their order.

    JSON lines, JSON: {"messages": [...]}, or the list alone; CSV, TSV and Parquet a column messages. Each may hold
    ShareGPT's conversations instead, or u1, b1, u2 and b2. An id is carried along. What is no chat is reported, written
    to FILE.rejected.jsonl, and the rest goes on. A pipe of JSON lines is answered line by line.

    Exit code: 0 all is well; 1 something was rejected, or found that --fail-on names; 2 it cannot be done.
    """
    _check_together(file, text, out, resume=resume, table=table, only=bool(only))
    if sys.stdout is None:
        raise InputError("standard output is closed; where nobody reads it, write > /dev/null")
    demand_model(model)
    settings = _settings(
        threshold=threshold, prior=prior, categories=category, windowing=windowing, max_turns=max_turns
    )
    chats = _open(file, text, None if format == "auto" else format)
    path = Path(file) if text is None and Path(file).is_file() else None
    if out and text is None:
        from contradiction.chats.writers import demand_apart

        demand_apart(out, os.fstat(0) if file == "-" else Path(file).stat())
    from contradiction.chats import streams
    from contradiction.detector import ContradictionDetector

    detector = ContradictionDetector.from_pretrained(model, precision=precision, **settings)
    detector.batch([])  # says at once where this model does not judge replies
    told = {"model": model, "precision": precision, "scan": scan, **_told(detector.settings)}
    kept = _kept(out, chats, path, resume, told) if out else None
    beside = _beside(path, chats.key) if path and not kept else None
    tally, rows = streams.Tally(), list[tuple[str, ...]]()
    stdout = sys.stdout.buffer  # before a bar takes the place of sys.stdout
    with _bar(chats, scan, shown=not quiet and (bool(kept) or table or not sys.stdout.isatty())) as bar:
        for part in kept.left(streams.parts(chats, scan), tally) if kept else streams.parts(chats, scan):
            answered = streams.judge(detector, part, chats.key, scan=scan, batch_size=batch_size, on_batch=bar(part))
            tally.add(answered.records, len(answered.rejected))
            for each in answered.rejected:
                _say(f"{chats.where}:{each[chats.key]}: {each['error']}")
            if kept:
                kept.add(answered)
                continue
            if beside:
                beside = _add(beside, answered)
            shown = streams.only(answered, [TESTS[kind] for kind in only]) if only else answered
            if table:
                rows += _rows(shown)
            else:
                _write(stdout, shown)
    if table:
        _show(rows)
    if not quiet:
        _say(_summary(tally, kept.rejected if kept else beside))
    if _fails(tally, fail_on or []) or tally.rejected:
        raise typer.Exit(1)


def _check_together(file: str, text: str | None, out: Path | None, *, resume: bool, table: bool, only: bool) -> None:
    """Raises InputError where options are given together that cannot be, or one without what it is for."""
    if text is not None and file != "-":
        raise InputError(f"--text {text!r} and the file {file}; only one of them can be judged")
    if resume and out is None:
        raise InputError("--resume continues what stands in --out; name that file")
    if table and out:
        raise InputError("--table shows on standard output and --out writes JSON lines; only one of them can be")
    if out and out.is_dir():
        raise InputError(f"--out {out}: is a folder; name a file in it")
    if out and out.exists() and not out.is_file():
        raise InputError(f"--out {out}: is no file that can be continued; without --out verdicts go to standard output")
    if only and out:
        # Of verdicts that are not written, a continued run could not say how many there were.
        raise InputError("--only is for what is shown, and --out keeps every verdict; only one of them can be")


def _settings(**asked: Any) -> dict[str, Any]:
    """Those that are asked for; says what is wrong with them before the model is loaded."""
    from contradiction.settings import Settings

    settings = {name: value for name, value in asked.items() if value is not None}
    Settings(**settings)
    return settings


def _fails(tally: "Tally", fail_on: list[Kind]) -> bool:
    """Whether there is any of what there must be none of; says of which, and how many."""
    found = {Kind.CONTRADICTION: tally.contradictions, Kind.UNCHECKED: tally.unchecked}
    failed = [name for name in dict.fromkeys(fail_on) if found[name]]
    for name in failed:
        _say(f"{found[name]:,} × {name}, and --fail-on asks for none")
    return bool(failed)


def _summary(tally: "Tally", rejected: "LineFile | None") -> str:
    return f"{tally} → {rejected.path}" if tally.rejected and rejected else str(tally)


def _open(file: str, text: str | None, form: str | None) -> "Chats":
    from contradiction.chats import readers

    if text is not None:
        return readers.from_text(text)
    if file == "-":
        if sys.stdin is None:
            raise InputError("<stdin>: is closed; name a file of chats")
        stdin: Any = sys.stdin.buffer  # a buffered reader, which a pipe needs, and BinaryIO does not promise
        return readers.open_stream(stdin, "<stdin>", form)
    return readers.open_file(file, form)


def _told(settings: "Settings") -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(settings), "categories": [*settings.categories]}


def _kept(out: Path, chats: "Chats", path: Path | None, resume: bool, told: dict[str, Any]) -> "AnswerFiles":
    from contradiction.chats.writers import AnswerFiles, request

    if resume and path is None:
        raise InputError(f"{chats.where}: --resume needs a file, of which it can be seen that it is still the same")
    run = request(file=path, format=chats.form, **told)
    kept = AnswerFiles(out, chats.key, run, resume)
    if kept.replaced:
        _say(f"{kept.rejected.path}: {REPLACED}")
    return kept


def _beside(path: Path, key: str) -> "LineFile":
    """What is rejected of a file goes beside it."""
    from contradiction.chats.writers import LineFile, rejected

    return LineFile(rejected(path), key)


def _add(beside: "LineFile", answered: "Answered") -> "LineFile | None":
    try:
        if answered.rejected and not beside.begun and beside.path.exists():
            beside.path.unlink()
            _say(f"{beside.path}: {REPLACED}")
        beside.add(answered.rejected)
    except OSError as error:  # for instance of a folder that only others may write in; it is on stderr too
        _say(f"{beside.path}: {error.strerror}; what is rejected is only said here")
        return None
    return beside


@contextmanager
def _bar(chats: "Chats", scan: bool, shown: bool) -> Iterator[Callable[[list["Entry"]], Callable[[int], Any] | None]]:
    """A bar for an input whose length is known; gives what moves it through a part, batch by batch."""
    if not shown or not chats.total or not sys.stderr.isatty():
        yield lambda part: None
        return
    from contradiction.chats.streams import cost

    with progress(Path(chats.where).name, in_bytes=chats.in_bytes) as bar:
        task = bar.add_task("", total=chats.total)

        def begin(part: list["Entry"]) -> Callable[[int], Any]:
            first, last = part[0].end, part[-1].end
            bar.update(task, completed=first)
            each = (last - first) / sum(cost(entry, scan) for entry in part)
            return lambda windows: bar.advance(task, windows * each)

        yield begin


def _say(message: str) -> None:
    typer.echo(f"cdconv: {' '.join(message.split())}", err=True)


def _write(stdout: Any, answered: "Answered") -> None:
    from contradiction.chats.streams import to_line

    stdout.write(b"".join(map(to_line, answered.records)))
    stdout.flush()


def _rows(answered: "Answered") -> list[tuple[str, ...]]:
    """What the table shows of each reply: where it is, what it says, the label, how sure, and what it contradicts."""
    rows: list[tuple[str, ...]] = []
    good = [entry for entry in answered.entries if entry.messages is not None]
    for entry, verdicts in zip(good, answered.verdicts, strict=True):
        for verdict in verdicts:
            messages = entry.messages or ()
            label = NOT_JUDGED if verdict.label is None else verdict.label
            score = "" if verdict.score is None else f"{verdict.score:.2f}"
            why = _text(messages, verdict.evidence) or verdict.reason or ""
            name = str(entry.number if entry.id is None else entry.id)
            rows.append((name, _text(messages, verdict.reply), label, score, why))
    return rows


def _text(messages: Any, indices: tuple[int, ...]) -> str:
    from contradiction.conversation import read_message

    return "\n".join(read_message(messages[index], "").text for index in indices)


def _clipped(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _show(rows: list[tuple[str, ...]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for name in ("chat", "reply", "verdict", "score", "contradicts, or why unchecked"):
        table.add_column(name, justify="right" if name == "score" else "left", overflow="fold")
    for cells in rows:
        # As text: what stands in a chat is no markup.
        table.add_row(
            *(Text(_clipped(each)) for each in cells),
            style="bold" if cells[2] not in (NON_CONTRADICTION, NOT_JUDGED) else None,
        )
    Console(width=None if sys.stdout.isatty() else 160).print(table)
