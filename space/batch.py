"""The tab for a file of chats: a table of verdicts, and a file of them."""

import re
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import gradio as gr
from locales import CHINESE, in_words, words_of

from contradiction.chats.chunks import Chats, Entry, JudgedChunk, judge_chunk
from contradiction.chats.formats import excel_rows, file_blocks
from contradiction.chats.names import REMEDY
from contradiction.chats.readers import format_of, open_file
from contradiction.conversation import text_at
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError, first_line
from contradiction.io.line_files import to_json_line
from contradiction.serving.predictions import BusyError, LateError, ServiceError, Ticket, TooLongError
from contradiction.serving.service import Places, Service, caller_of, chosen
from contradiction.verdict import Verdict, is_unchecked

CHATS = 500  # of a file, together with what is rejected
TABLE_SECONDS = 3600  # for which the table of a visitor is kept
MEGABYTES = 5  # of a file, also when it is unpacked
SECONDS = 120  # for one chat
COST_FACTOR = 10  # a chat of a file may cost so many times a request: all replies are judged, and the visitor can wait
FILES_AT_ONCE = 2  # and of each visitor one
VISITORS = 64  # who have a file that is judged, or is being stopped
CHATS_AT_ONCE = 16  # judged at a time; after them, the page checks whether the visitor has gone
# A double click would start two runs in Gradio, and "Stop" ends only one.
NO_DOUBLE_CLICK = """() => document.addEventListener(
    "click", (event) => event.detail > 1 && event.target.closest("#run") && event.stopImmediatePropagation(), true
)"""
Row = list[str]


def draw(services: Mapping[str, Service], words: Callable[[str], Any], page: gr.Blocks) -> None:
    """Draws the tab."""
    runs = Places(VISITORS, 1)  # how many run at once, Gradio decides
    rule = (first := next(iter(services.values())).detector).classifier.rule
    # In percent, as the page shows them; a value that the visitor leaves alone is that of the chosen detector.
    own = {"threshold": round(100 * first.settings.threshold_for(rule), 1), "rate": round(100 * (rule.prior or 0.0), 1)}

    # Gradio finds the progress bar by this default, so the rule on calls in defaults does not apply.
    def run(
        path: str | None,
        detector: str,
        threshold: float | None,
        rate: float | None,
        request: gr.Request,
        progress: gr.Progress = gr.Progress(),  # noqa: B008
    ) -> Iterator[tuple[Any, ...]]:
        spoken, out = words_of(request), None
        nothing: tuple[Any, ...] = [], [], gr.DownloadButton(value=None, interactive=False)
        if not path:
            yield spoken["noFile"], *nothing
            return
        try:
            with runs.taken(caller_of(request)):
                service = chosen(services, detector)
                own_threshold, own_rate = threshold == own["threshold"], rate == own["rate"]
                settings = settings_of(service, None if own_threshold else threshold, None if own_rate else rate)
                for *shown, out in judge_file(service, Path(path), spoken, progress, **settings):
                    yield *shown, gr.DownloadButton(value=out, interactive=out is not None)
        except BusyError:  # said beside the table, which the other run fills
            gr.Info(spoken["oneFile"])
            yield gr.skip(), gr.skip(), gr.skip(), gr.skip()
        except InputError as error:
            yield _with_reason("refused", error, path, spoken), *nothing
        finally:
            if out:  # Gradio has a copy of it
                Path(out).unlink()

    def choose(rows: list[tuple[str, Row]], shown: str) -> list[Row]:
        return [row for group, row in rows or [] if shown in ("all", group)]

    def speak(request: gr.Request) -> tuple[Any, Any]:
        spoken = words_of(request)
        choices = [(spoken[name], name) for name in ("all", "contradictions", "others")]
        # Without a value, Gradio shows no column names before the first run.
        table = gr.Dataframe(headers=spoken["columns"].split("|"), value=[])
        return gr.Radio(choices=choices, value="all"), table

    with gr.Row():
        with gr.Column(scale=1):
            # Of any type: Gradio would refuse the others with a traceback in the log, the reader says why in a line.
            file = gr.File(label=words("file"), elem_id="file")
            gr.Markdown(words("fileInfo"))
            detector = gr.Dropdown([*services], label=words("detector"), visible=len(services) > 1, elem_id="detector")
            with gr.Row():
                start = gr.Button(words("run"), variant="primary", elem_id="run", scale=3)
                stop = gr.Button(words("stopRun"), elem_id="stop", scale=1, min_width=80)
            threshold, rate = (
                gr.Number(
                    value,
                    label=words(f"{name} percent"),
                    info=words(f"{name}Info"),
                    elem_id=name,
                    visible=bool(value),
                )
                for name, value in own.items()
            )
        with gr.Column(scale=3):
            said = gr.Textbox(
                label=words("summary"),
                show_label=False,
                interactive=False,
                lines=2,
                elem_id="said",
                container=False,
                placeholder=words("fileStart"),
            )
            shown = gr.Radio([("all", "all")], value="all", label=words("show"), elem_id="shown")
            table = gr.Dataframe(
                headers=[""] * 7,
                label=words("verdicts"),
                show_label=False,
                datatype="str",
                interactive=False,
                wrap=True,
                max_height=480,
                column_widths=["11%", "22%", "14%", "12%", "9%", "9%", "23%"],
                elem_id="table",
            )
            download = gr.DownloadButton(words("download"), elem_id="download", interactive=False)
    kept = gr.State([], time_to_live=TABLE_SECONDS)
    page.load(js=NO_DOUBLE_CLICK)
    page.load(speak, outputs=[shown, table], api_visibility="private", queue=False)
    working = start.click(
        run,
        [file, detector, threshold, rate],
        [said, kept, table, download],
        api_visibility="private",
        concurrency_limit=FILES_AT_ONCE,
    )
    stop.click(None, cancels=[working], api_visibility="private")
    shown.change(choose, [kept, shown], table, api_visibility="private", queue=False)


def settings_of(service: Service, threshold: float | None, rate: float | None) -> dict[str, float]:
    """Settings from a threshold and a base rate in percent; with a base rate alone, the detector's threshold stays."""
    detector = service.detector
    if threshold is None and rate is not None:
        threshold = 100 * detector.settings.threshold_for(detector.classifier.rule)
    given = {"threshold": threshold, "prior": rate}
    return {name: value / 100 for name, value in given.items() if value is not None}


def judge_file(
    service: Service, path: Path, words: dict[str, str], progress: Any, **settings: float
) -> Iterator[tuple[str, list[tuple[str, Row]], list[Row], str | None]]:
    """Judges the chats of a file, a few at a time; yields the message, the rows by group, the rows, and the download.

    A chat that is too long or takes too long gets a row that says so, as does a line that holds no chat. A file that
    cannot be read further keeps the verdicts on what was read.

    Raises:
        InputError: nothing in the file can be read.
    """
    chats = _open(path)
    detector = service.with_settings(**settings)
    entries = iter(chats)
    rows: list[tuple[str, Row]] = []
    counts = dict.fromkeys(("chats", "replies", "found", "parts", "unsure", "unjudged", "rejected"), 0)
    broken: InputError | None = None
    with ThreadPoolExecutor(CHATS_AT_ONCE) as pool, ExitStack() as stack:
        out = stack.enter_context(tempfile.NamedTemporaryFile("wb", suffix=".jsonl", prefix="verdicts-", delete=False))
        stack.callback(Path(out.name).unlink)  # unless all is judged
        while (read := counts["chats"] + counts["rejected"]) < CHATS and not broken:
            group, broken = _next(entries, min(CHATS_AT_ONCE, CHATS - read))
            if broken and not (group or read):
                raise broken
            if not group:
                break
            results = pool.map(lambda entry: _judge(service, detector, entry, chats.key), group)
            for entry, judged in zip(group, results, strict=True):
                counts["rejected" if entry.error else "chats"] += 1
                if not entry.error and isinstance(judged, JudgedChunk):
                    [record], [verdicts] = judged.records, judged.verdicts
                    verdicts = [verdict for verdict in verdicts if _is_shown(verdict, len(verdicts))]
                    rows += [row_of(entry, verdict, words) for verdict in verdicts]
                    for verdict in verdicts:
                        whole, found = ("replies", "found") if verdict.checked else ("parts", "unsure")
                        counts[whole if verdict.contradiction is not None else "unjudged"] += 1
                        counts[found] += bool(verdict.contradiction)
                else:
                    record, row = _not_judged(entry, judged, chats.key, words)
                    rows.append(("others", row))
                out.write(to_json_line(record))
            done, total = group[-1].end, chats.total or group[-1].end
            progress(min(done / total, 1.0))
            yield _summary(counts, words), rows, [row for _, row in rows], None
        out.close()
        stack.pop_all()
    summary = _summary(counts, words)
    if broken:
        summary += " " + _with_reason("unreadable", broken, str(path), words)
    elif _next(entries, 1) != ([], None):
        summary += " " + words["tooMany"].format(chats=CHATS)
    summary = " ".join([summary, *(note.replace(f"{path}: ", "") for note in chats.notes)])
    yield summary, rows, [row for _, row in rows], out.name


def _summary(counts: dict[str, int], words: dict[str, str]) -> str:
    """What was found in replies that were read completely; how many were not comes after it."""
    parts = {"found": counts["unsure"], "parts": counts["parts"]}
    said = [words["done"].format(**counts), words["partly"].format(**parts) if counts["parts"] else ""]
    said += [words[name].format(**counts) if counts[name] else "" for name in ("unjudged", "rejected")]
    return ("" if words is CHINESE else " ").join(filter(None, said))


def _open(path: Path) -> Chats:
    """Opens a file of chats; raises InputError if it is gone, too large, or of no known format."""
    limit = MEGABYTES * 1_000_000
    if not path.is_file():  # Gradio deletes files after a time
        raise InputError("the file is no longer here; choose it again")
    if path.stat().st_size > limit:
        raise InputError(f"the file is larger than {MEGABYTES} MB")
    if _unpacked_size(path, limit) > limit:
        raise InputError(f"the file is larger than {MEGABYTES} MB when it is unpacked")
    return open_file(path)


def _unpacked_size(path: Path, limit: int) -> int:
    """How many bytes a file fills when it is read, counted until a limit is passed; raises InputError if damaged."""
    import pyarrow

    try:
        if format_of(path) == "parquet":
            return _unpacked_parquet(path, limit)
        if format_of(path) == "xlsx":
            with zipfile.ZipFile(path) as file:
                if (size := sum(part.file_size for part in file.infolist())) > limit:
                    return size
            # Cells can share one text.
            return _size_of((text for text, _, _ in excel_rows(path, [])), limit)
    except (pyarrow.ArrowException, zipfile.BadZipFile, OSError, ValueError) as error:
        raise error if isinstance(error, InputError) else InputError(f"{path}: damaged ({first_line(error)})") from None
    return _size_of(file_blocks(path), limit)


def _size_of(parts: Iterable[str | bytes], limit: int) -> int:
    size = 0
    for part in parts:
        size += len(part)
        if size > limit:
            break
    return size


def _unpacked_parquet(path: Path, limit: int) -> int:
    """The bytes of a Parquet file without compression, and without the dictionary of a column that repeats a text."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as opened:
        footer = opened.metadata
        groups = [footer.row_group(group) for group in range(footer.num_row_groups)]
        size, texts = sum(group.total_byte_size for group in groups), []
        for place in range(footer.num_columns):
            column = footer.schema.column(place)
            # An offset or a number has four bytes, or more in a column of a fixed width.
            width = max(4, column.length or 0)
            size = max(size, width * sum(group.column(place).num_values for group in groups))
            texts += [column.path] if column.physical_type == "BYTE_ARRAY" else []
    if size > limit:
        return size
    # The dictionaries are kept while the texts are counted, so counting does not fill the memory.
    with parquet.ParquetFile(path, read_dictionary=texts) as opened:
        counted = 0
        for batch in opened.iter_batches(batch_size=CHATS):
            counted += sum(map(_text_bytes, batch.columns))
            if counted > limit:
                break
    return max(size, counted)


def _text_bytes(array: Any) -> int:
    """The bytes of the texts in an Arrow array of any type."""
    from pyarrow import compute, types

    if types.is_dictionary(array.type):
        return compute.sum(compute.binary_length(array.dictionary).take(array.indices)).as_py() or 0
    if types.is_map(array.type):
        return _text_bytes(array.keys) + _text_bytes(array.items)
    if types.is_struct(array.type):
        return sum(map(_text_bytes, array.flatten()))
    if types.is_nested(array.type):  # a list
        return _text_bytes(array.flatten())
    is_text = types.is_string(array.type) or types.is_large_string(array.type) or types.is_binary(array.type)
    return (compute.sum(compute.binary_length(array)).as_py() or 0) if is_text else 0


def _next(entries: Iterator[Entry], most: int) -> tuple[list[Entry], InputError | None]:
    """The next entries, and why there are no more where the file cannot be read further."""
    group: list[Entry] = []
    try:
        group.extend(islice(entries, most))
    except InputError as error:
        return group, error
    return group, None


def _judge(service: Service, detector: ContradictionDetector, entry: Entry, key: str) -> JudgedChunk | Exception:
    """The verdicts on one chat, or why there are none; all chats of files are those of one caller."""
    ticket = Ticket(time.monotonic() + SECONDS, COST_FACTOR * service.limits.cost, "files")
    try:
        judged = service.answer(lambda: judge_chunk(detector, [entry], key, scan=True), ticket)
    except (InputError, ServiceError) as error:
        return error
    for verdicts in judged.verdicts:
        service.count("scan", verdicts)
    return judged


def row_of(entry: Entry, verdict: Verdict, words: dict[str, str]) -> tuple[str, Row]:
    """The group of a verdict, and its cells."""
    group = "contradictions" if verdict.contradiction else "" if verdict.checked else "others"
    decided = words[{None: "notJudged", True: "clash", False: "noClash"}[verdict.contradiction]]
    share, chance = verdict.probability, ""
    if share is not None:  # as in `percent` of chat.js
        chance = words["percent"].format(value=f"{100 * share:.{1 if share < 0.01 else 0}f}")
    why = text_at(entry.messages, verdict.evidence) or (in_words(verdict.reason, words) if verdict.reason else "")
    kind, sure = (words[name] if name else "" for name in (verdict.kind, verdict.certainty))
    return group, [entry.name, text_at(entry.messages, verdict.reply), decided, kind, sure, chance, why]


def _not_judged(
    entry: Entry, judged: JudgedChunk | Exception, key: str, words: dict[str, str]
) -> tuple[dict[str, Any], Row]:
    """The line of the download and the cells of a chat without a verdict."""
    named = {} if entry.id is None else {"id": entry.id}
    error = for_page(entry.error or str(judged))
    reason = words["tooLong"] if isinstance(judged, TooLongError | LateError) else in_words(error, words)
    return {key: entry.number, **named, "error": error}, [entry.name, "", words["notJudged"], "", "", "", reason]


def _with_reason(key: str, error: InputError, path: str, words: dict[str, str]) -> str:
    reason = for_page(str(error)).replace(f"{path}: ", "").replace(path, Path(path).name)
    return words[key].format(reason=in_words(reason, words))


def for_page(message: str) -> str:
    """A message of the library without advice that only holds for the command line.

    The page does not read such a file as GB18030: Big5 and damaged UTF-8 are often valid GB18030 too, with other
    characters.
    """
    message = re.sub(r"(not in UTF-8[^;]*); .*--encoding.*", r"\1; save the file as UTF-8", message)
    return re.sub(r"(?:[,;] or|;) --format.*", "", message).removesuffix(f"; {REMEDY}")


def _is_shown(verdict: Verdict, replies: int) -> bool:
    """Whether a verdict is shown: all but those on first replies, which can contradict nothing."""
    return verdict.label is not None or is_unchecked(verdict.checked, verdict.reason, replies)
