"""The command ``cdconv detect``: chats in, verdicts out."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from contradiction.commands.common import (
    SHIPPED,
    BackendOption,
    BotNameOption,
    CategoryOption,
    DeviceOption,
    EncodingOption,
    MaxTurnsOption,
    ModelOption,
    PrecisionOption,
    PriorOption,
    RevisionOption,
    ThresholdOption,
    UserNameOption,
    WindowingOption,
    counting,
    given_settings,
    limit_threads,
    say,
    say_precision,
    show,
    speakers_of,
)
from contradiction.errors import InputError
from contradiction.inputs.views import MAX_TURNS
from contradiction.io.files import locked
from contradiction.io.hub import pinned

if TYPE_CHECKING:
    from contradiction.chats.chunks import Chats, Entry, OnChunk, Tally
    from contradiction.chats.detection import Usage
    from contradiction.chats.names import Speakers
    from contradiction.inference.base import OnBatch


class Kind(StrEnum):
    """A kind of verdict, for ``--only`` and ``--fail-on``."""

    CONTRADICTION = "contradiction"
    UNCHECKED = "unchecked"


# In a help text, characters of double width stand at the end: where a line with them breaks, Rich may cut off letters.
def detect(
    file: Annotated[
        str,
        typer.Argument(help="A file of chats, or - for standard input. With --engine ray, a folder."),
    ] = "-",
    model: ModelOption = SHIPPED,
    revision: RevisionOption = None,
    text: Annotated[
        str | None,
        typer.Option(
            help='One chat instead of a file: \'[{"role": "user", "content": "…"}, …]\'. Or lines of text; the user '
            "begins, or each line begins with 用户：/机器人："
        ),
    ] = None,
    format: Annotated[
        Literal["auto", "jsonl", "json", "csv", "tsv", "text", "xlsx", "parquet"],
        typer.Option(
            help="The format of the file. auto: by the name of the file; jsonl for standard input. text: an empty line "
            "ends a chat, and lines begin with 用户：/机器人："
        ),
    ] = "auto",
    encoding: EncodingOption = None,
    user_name: UserNameOption = None,
    bot_name: BotNameOption = None,
    scan: Annotated[bool, typer.Option("--scan", help="Judge every reply of a chat, not only the last one.")] = False,
    threshold: ThresholdOption = None,
    prior: PriorOption = None,
    category: CategoryOption = None,
    windowing: WindowingOption = None,
    max_turns: MaxTurnsOption = MAX_TURNS,
    batch_size: Annotated[int, typer.Option(min=1, help="The number of inputs in a forward pass.")] = 32,
    precision: PrecisionOption = "auto",
    backend: BackendOption = "torch",
    device: DeviceOption = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the verdicts to this file as JSON lines, and rejected inputs to OUT.rejected.jsonl."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The number of processes. They share the cores, and each loads the model. By default 1, and with "
            "--engine ray one for each core.",
        ),
    ] = None,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(help="ray: judge a folder of Parquet files with Ray Data. --out then names a folder."),
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="The address of a Ray cluster; by default Ray runs on this machine alone.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the killed run that wrote --out.")] = False,
    table: Annotated[bool, typer.Option("--table", help="Show a table instead of JSON lines.")] = False,
    fail_on: Annotated[
        list[Kind] | None,
        typer.Option(
            help="Exit with code 1 if there is such a verdict; can be repeated. With --scan, a chat without a reply "
            "counts as unchecked."
        ),
    ] = None,
    only: Annotated[
        list[Kind] | None, typer.Option(help="Show only these verdicts; can be repeated. Not with --out.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show errors only: no progress bar and no summary.")] = False,
) -> None:
    """Judges the last reply of each chat. Writes one JSON line for each chat, in the same order.

    The file holds JSON lines, JSON, CSV, TSV, text (each also with .gz), Excel or Parquet. A chat is
    {"messages": [...]}, perhaps with a "reply" or "response". Other forms that are read: lists of messages of OpenAI,
    Anthropic, Gemini or LangChain; ShareGPT's "conversations"; u1, b1, u2 and b2; rows of LLaMA-Factory, ms-swift, TRL
    or DeepEval; logged requests with their responses; rows with session_id, role and content. Of several replies, such
    as "chosen" and "rejected", each is judged.

    The id of a chat is copied to its verdict. An input that is not a chat is reported, and written to
    FILE.rejected.jsonl. A pipe of JSON lines is answered line by line,
    or at its end if the lines are single messages or turns.

    Exit code: 0 done; 1 an input was rejected, or --fail-on found such a verdict or no chat; 2 the command cannot run;
    130 interrupted; 141 the output was closed.
    """
    ray = engine == "ray"
    chosen = format not in ("auto", "parquet") or encoding is not None
    for wrong, problem in (
        (ray and out is None, "--engine ray writes a folder of Parquet files; name it with --out"),
        (ray and (chosen or text is not None), "--engine ray reads Parquet; leave --text, --format and --encoding out"),
        (ray and device not in (None, "cpu", "cuda"), f"--device {device}: with --engine ray it must be cpu or cuda"),
        (not ray and address is not None, "--address names a Ray cluster; it goes with --engine ray"),
        (text is not None and file != "-", f"--text {text!r} and the file {file}; give only one of them"),
        (
            text is not None and (format, encoding) != ("auto", None),
            "--format and --encoding are those of a file; leave them out with --text",
        ),
        (resume and out is None, "--resume continues the run that wrote --out; name that file"),
        (table and out, "--table shows the verdicts and --out writes them to a file; give only one of them"),
        # A continued run could not count the verdicts that were not written.
        (only and out, "--only filters what is shown, and --out keeps every verdict; give only one of them"),
    ):
        if wrong:
            raise InputError(problem)
    if out and not ray and out.exists() and not out.is_file():
        raise InputError(f"--out {out}: is not a regular file; without --out the verdicts go to standard output")
    if out and not ray and out.suffix.lower() in (".csv", ".tsv", ".parquet"):
        raise InputError(f"--out {out}: the verdicts are JSON lines; give it a name that ends in .jsonl")
    if sys.stdout is None:
        raise InputError("standard output is closed; write > /dev/null if nobody reads it")
    model = pinned(model, revision)
    settings = given_settings(
        threshold=threshold, prior=prior, categories=category, windowing=windowing, max_turns=max_turns
    )
    from contradiction.chats.detection import Detection

    speakers = speakers_of(user_name, bot_name)
    device = device or ("cpu" if ray else None)  # so that the precision is one for the CPU, also beside a GPU
    detection_of = partial(Detection, model, settings, backend, precision, device, speakers, scan, batch_size, workers)
    if ray and out:
        from contradiction.chats.ray_engine import judge_folder

        with counting(Path(file).name, shown=not quiet) as bar:
            counts, usage = judge_folder(
                detection_of(), Path(file), out, resume=resume, address=address, on_parts=bar.move
            )
        return _end(counts, usage, fail_on or [], quiet, out)
    # Loading a model takes seconds, so what is wrong with the files is found before it.
    path = Path(file) if text is None and Path(file).is_file() else None
    chats = _open(file, text, None if format == "auto" else format, encoding, speakers, workers, quiet)
    from contradiction.chats import writers

    detection, verdicts = detection_of(), writers.VerdictTable() if table else None
    if out:
        if resume and path is None:
            raise InputError(
                f"{chats.where}: --resume needs a file, because a pipe cannot be compared with the earlier one"
            )
        if source := None if text is not None else os.fstat(0) if file == "-" else Path(file).stat():
            files = (out, writers.rejected_path(out), writers.record_path(out))
            writers.check_not_the_input(files, source, f"--out {out}")

    def on_load() -> None:
        if detection.computes and not quiet:
            say_precision(detection.precision, precision)

    has_bar = not quiet and (out is not None or table or not sys.stdout.isatty())
    with locked(out) if out else nullcontext(), _progress_bar(chats, scan, shown=has_bar) as on_chunk:
        output: writers.ResumableOutput | writers.ShownOutput
        if out:
            request = partial(detection.request, path, format=chats.format, encoding=encoding)
            output = writers.ResumableOutput(out, chats.key, request, resume, say)
        else:
            write = verdicts.add if verdicts else partial(writers.write_records, sys.stdout.buffer)
            output = writers.ShownOutput(write, path, chats.key, only or (), say)
        if not workers or workers == 1:
            limit_threads(backend)
        tally, usage = detection.run(chats, output, on_chunk=on_chunk, on_note=say, on_load=on_load)
    if verdicts:
        verdicts.print()
    for note in chats.notes if not quiet else ():
        say(note)
    if not (tally.chats or tally.rejected or fail_on or quiet):
        say(f"{chats.where}: held no chat")
    _end(tally, usage, fail_on or [], quiet, output.rejected_path)


def _open(
    file: str, text: str | None, format: str | None, encoding: str | None, speakers: "Speakers", workers: int | None,
    quiet: bool,
) -> "Chats":  # fmt: skip
    from contradiction.chats import readers

    if text is not None:
        return readers.from_text(text, speakers)
    if file != "-":
        chats = readers.open_file(file, format, encoding, speakers)
        return readers.check_begin(chats) if Path(file).is_file() else chats
    if sys.stdin is None:
        raise InputError("<stdin>: is closed; name a file of chats")
    stdin: Any = sys.stdin.buffer  # a buffered reader, which a pipe needs, and BinaryIO does not promise
    if stdin.isatty() and not quiet:
        say("reading chats from standard input, one as JSON on each line; Ctrl+D ends the input")
    if workers and workers > 1:
        # A reader of its own: Python cannot end while a thread waits inside the reader of sys.stdin.
        with suppress(OSError):  # not a file of the operating system
            stdin = open(stdin.fileno(), "rb", closefd=False)
    return readers.open_stream(stdin, "<stdin>", format, encoding, speakers)


@contextmanager
def _progress_bar(chats: "Chats", scan: bool, shown: bool) -> Iterator["OnChunk"]:
    """Shows progress if the length of the input is known; yields the ``on_chunk`` of ``Detection.run``."""
    if not shown or not chats.total:
        yield lambda entries: None
        return
    from contradiction.chats.chunks import count_windows

    read: int | None = None
    with counting(Path(chats.where).name, chats.total, in_bytes=chats.in_bytes) as bar:

        def on_chunk(entries: list["Entry"]) -> "OnBatch":
            nonlocal read
            if read is None:  # a continued run begins inside the file
                read = entries[0].end if len(entries) > 1 else 0
            start, end = read, entries[-1].end
            bar.move(start)
            read = end
            per_window = (end - start) / sum(count_windows(entry, scan) for entry in entries)
            return lambda windows: bar.advance(windows * per_window)

        yield on_chunk


def _end(tally: "Tally", usage: "Usage", fail_on: list[Kind], quiet: bool, rejected: Path | None) -> None:
    """Prints the summary; exits with 1 if an input was rejected, or for a reason that ``--fail-on`` names."""
    if usage and not quiet:
        from contradiction.evaluation.tables import usage_table

        show(usage_table(usage), stderr=True)  # standard output holds verdicts
    if not quiet:
        say(f"{tally} → {rejected}" if tally.rejected and rejected else str(tally))
    counts = {Kind.CONTRADICTION: tally.contradictions, Kind.UNCHECKED: tally.unchecked + tally.silent}
    problems = [f"{counts[kind]:,} × {kind}; --fail-on allows none" for kind in dict.fromkeys(fail_on) if counts[kind]]
    if fail_on and not tally.chats:
        problems = ["no chat to judge, and --fail-on asks that there is one"]
    for problem in problems:
        say(problem)
    if problems or tally.rejected:
        raise typer.Exit(1)
