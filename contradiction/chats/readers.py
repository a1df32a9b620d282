"""Opens files, pipes and pasted texts of chats. Each format ends in :func:`contradiction.chats.records.read_record`."""

from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from io import BufferedIOBase
from itertools import chain, count
from pathlib import Path
from typing import Any

from contradiction.chats.entries import Chats, Entry, make_entries
from contradiction.chats.messages import USUAL, Speakers
from contradiction.chats.parquet_files import open_parquet, unpacked_parquet
from contradiction.chats.records import Chat, chats_of_json, read_chat, read_record
from contradiction.chats.rows import DELIMITERS, csv_rows, excel_rows, hint_at_table, unpacked_excel
from contradiction.chats.tables import Columns, Row, Values, grouped, message_keys, read_table
from contradiction.chats.text import JSON, as_utf8, decode, open_utf8, parse_json, split_lines
from contradiction.chats.transcripts import begins_transcript, blocks, read_lines, read_transcript
from contradiction.conversation import ASSISTANT, USER
from contradiction.errors import InputError, kind_of

FORMATS = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".csv": "csv", ".tsv": "tsv", ".xlsx": "xlsx",
    ".txt": "text", ".parquet": "parquet",
}  # fmt: skip
BINARY, GARAK = ("parquet", "xlsx"), "garak"
PIPE_BYTES = 1 << 18  # bytes read from a pipe at once: enough for full batches, few enough to answer soon
BRACKETS = ("{", "[", "[{")  # the first line of JSON that spreads over many lines


def open_file(
    path: str | Path, format: str | None = None, encoding: str | None = None, speakers: Speakers = USUAL
) -> Chats:
    """The chats of a file.

    Args:
        path: the file. A named pipe is read as it comes. A text may be packed with gzip, as ``NAME.jsonl.gz``.
        format: ``jsonl`` (one record per line), ``json`` (see :func:`contradiction.chats.records.chats_of_json`),
            ``csv``, ``tsv`` or ``xlsx`` (see :mod:`contradiction.chats.tables`), ``parquet``, ``text`` (see
            :mod:`contradiction.chats.transcripts`), or ``garak``. By default the file's name says which.
        encoding: the encoding of the text, such as ``gb18030``; by default UTF-8.
        speakers: the names of the two sides.

    Raises:
        InputError: there is no such file, or it has another format. In CSV and JSON lines some errors show only while
            the entries are read.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file of chats in it, or --engine ray for all its Parquet")
    if not path.is_file():
        stream: Any = path.open("rb")  # a buffered reader, which a pipe needs and mypy does not see
        return open_stream(stream, str(path), format, encoding, speakers)
    format = format or format_of(path)
    where = str(path)
    if format in BINARY:
        if encoding is not None:
            raise InputError(f"{where}: {format} says itself how its text is encoded; leave the encoding out")
        if format == "parquet":
            return open_parquet(path, speakers=speakers)
        chats = Chats(where, format, [])
        return replace(chats, arrivals=[read_table(excel_rows(path, chats), chats, speakers)])
    if format in (GARAK, "json"):
        with open_utf8(path, encoding) as file:
            content = file.read()
        chats = Chats(where, format, [])
        entries = [*_json(content, chats, speakers)] if format == "json" else _read_report(content, where)
        return replace(chats, arrivals=[entries], total=len(entries))
    chats = Chats(where, format, [], _size(path, encoding), in_bytes=True)
    return replace(chats, arrivals=[_through(path, encoding, chats, speakers)])


def format_of(path: Path) -> str:
    """The format that the name of a file says; raises InputError if it says none."""
    name = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    if name.name.lower().endswith(".report.jsonl"):
        return GARAK
    if (format := FORMATS.get(name.suffix.lower())) is None or (format in BINARY and name != path):
        raise InputError(
            f"{path}: {path.suffix or 'a name without an ending'} is no known type of file; the known ones are "
            f"{', '.join(FORMATS)}, texts also with .gz; or --format names the format"
        )
    return format


def _through(path: Path, encoding: str | None, chats: Chats, speakers: Speakers) -> Iterator[Entry]:
    with open_utf8(path, encoding) as file:
        if chats.format != "jsonl":
            yield from _texts(file, chats, speakers)
            return
        begin: list[bytes] = []
        while not (begin and begin[-1].strip()) and (line := file.readline()):
            begin.append(line)
        keys, lines = _message_keys(begin), chain(begin, file)
        yield from _messages(lines, keys, chats, speakers) if keys else _lines(lines, chats, speakers)


def _texts(file: Iterable[bytes], chats: Chats, speakers: Speakers) -> Iterator[Entry]:
    if chats.format == "text":
        return _transcripts(file, chats.where, speakers)
    return read_table(csv_rows(file, chats.where, chats.format), chats, speakers)


def _size(path: Path, encoding: str | None) -> int:
    """The number of bytes in UTF-8, in which the places of the entries are counted."""
    if encoding is None and path.suffix.lower() != ".gz":
        return path.stat().st_size
    with open_utf8(path, encoding) as file:
        return sum(map(len, iter(partial(file.read1, PIPE_BYTES), b"")))


def unpacked_size(path: Path, limit: int) -> int:
    """How many bytes a file fills when it is read, counted until a limit is passed; raises InputError if damaged."""
    if format_of(path) == "parquet":
        return unpacked_parquet(path, limit)
    if format_of(path) == "xlsx":
        return unpacked_excel(path)
    size = 0
    with open_utf8(path) as file:
        while size <= limit and (part := file.read1(PIPE_BYTES)):
            size += len(part)
    return size


def open_stream(
    stream: BufferedIOBase,
    where: str,
    format: str | None = None,
    encoding: str | None = None,
    speakers: Speakers = USUAL,
) -> Chats:
    """The chats of standard input or of another pipe.

    JSON lines, the default, form groups as they arrive, so that each line can be answered at once. See
    :func:`open_file` for the formats and encodings.

    Raises:
        InputError: the format cannot be read from a pipe, or the encoding is unknown.
    """
    if format in (*BINARY, GARAK):
        raise InputError(f"{where}: {format} is read from a file and cannot come through a pipe; name the file")
    stream = as_utf8(stream, encoding, where)
    chats = Chats(where, format or "jsonl", [])
    if format == "json":
        return replace(chats, arrivals=[_json(stream.read(), chats, speakers)])
    if format == "text" or format in DELIMITERS:
        return replace(chats, arrivals=[_texts(stream, chats, speakers)])
    return replace(chats, arrivals=_arrivals(arriving_lines(stream), chats, speakers))


def check_begin(chats: Chats) -> Chats:
    """The chats of a file whose first one has been read, so that an unreadable file is found before a model is loaded.

    Raises:
        InputError: the file holds no chat, or cannot be read.
    """
    entries = iter(chats)
    first = next(entries, None)
    if first is None:
        raise InputError(f"{chats.where}: holds no chat")
    return replace(chats, arrivals=[chain([first], entries)])


def from_text(text: str, speakers: Speakers = USUAL) -> Chats:
    """A single chat from a text: a record as JSON, or lines of text.

    Raises:
        InputError: it is not a usable chat.
    """
    [entry] = make_entries(1, 1, lambda text: [pasted_chat(text, speakers)], text)
    if entry.error:
        raise InputError(f"--text: {entry.error}")
    return Chats("--text", "jsonl", [[entry]], 1)


def arriving_lines(stream: BufferedIOBase) -> Iterator[list[bytes]]:
    """Yields the complete lines that can be read without waiting, until the stream ends."""
    pending: list[bytes] = []
    while part := stream.read1(PIPE_BYTES):
        head, newline, tail = part.rpartition(b"\n")
        if newline:
            yield b"".join([*pending, head]).split(b"\n")
            pending = [tail]
        else:
            pending.append(part)
    if remainder := b"".join(pending):
        yield [remainder]


def _arrivals(groups: Iterator[list[bytes]], chats: Chats, speakers: Speakers) -> Iterator[Iterator[Entry]]:
    """The entries of the lines of a pipe as they come; messages of chats only once the last line has come."""
    begin = next(groups, [])
    while not any(map(bytes.strip, begin)) and (more := next(groups, None)):
        begin += more
    if keys := _message_keys(begin):
        yield _messages(chain(begin, chain.from_iterable(groups)), keys, chats, speakers)
        return
    numbers = count(1)
    yield from (_lines(lines, chats, speakers, numbers) for lines in chain([begin], groups))


def _message_keys(lines: Iterable[bytes]) -> Columns | None:
    """The keys of JSON lines with a message in each, by the first line; None for lines with a chat in each."""
    try:
        return message_keys(parse_json(next(filter(bytes.strip, lines), b"")))
    except InputError:  # reported when the line is read
        return None


def _messages(lines: Iterable[bytes], keys: Columns, chats: Chats, speakers: Speakers) -> Iterator[Entry]:
    """The chats of JSON lines with a message in each."""

    def rows() -> Iterator[Row]:
        end = 0
        for number, line in enumerate(lines, 1):
            end += len(line)
            if line.strip():
                yield number, line, _object(line), end

    return grouped(rows(), keys, chats, speakers, whole=True)


def _object(line: bytes) -> Values | InputError:
    try:
        return _checked(parse_json(line))
    except InputError as error:
        return error


def _checked(value: Any) -> Values | InputError:
    return value if isinstance(value, Mapping) else InputError(f"{kind_of(value)}; it must be an object with a message")


def _lines(
    lines: Iterable[bytes], chats: Chats, speakers: Speakers, numbers: Iterator[int] | None = None
) -> Iterator[Entry]:
    end = 0
    for line, number in zip(lines, numbers or count(1), strict=False):
        end += len(line)
        if number == 1:
            _check_first_line(line, chats.where)
        if line.removeprefix(BOM_UTF8).strip():
            yield from make_entries(number, end, partial(_from_line, speakers), line.strip())


def _check_first_line(line: bytes, where: str) -> None:
    """Raises one InputError, and not one for each line, if the first line shows that the file has another format."""
    text = decode(line, f"{where}:1").strip()
    if hint := hint_at_table(text):
        raise InputError(f"{where}: {hint}")
    if begins_transcript(text):
        raise InputError(f"{where}: its first line begins with a speaker, as of a transcript; --format text reads it")
    if text in BRACKETS:
        raise InputError(f"{where}: its first line is {text} alone, as of JSON over many lines; --format json reads it")


def _from_line(speakers: Speakers, line: bytes | str) -> list[Chat]:
    return read_record(parse_json(line), speakers)


def _json(content: bytes, chats: Chats, speakers: Speakers) -> Iterator[Entry]:
    where = chats.where
    text = decode(content, where)
    try:
        value = parse_json(text)
    except InputError as error:
        lines = [line for line in text.split("\n") if line.strip()]
        if len(lines) < 2 or not all(line.lstrip().startswith("{") for line in lines[:2]):
            raise InputError(f"{where}: {error}; a file with one chat per line has the format jsonl") from None
        raise InputError(f"{where}: has a chat in each line; --format jsonl reads it") from None
    # An id of its own names a message of one chat.
    keys = message_keys(value[0]) if isinstance(value, list) and value else None
    if keys and keys.chat.lower() != "id" and all(isinstance(one, Mapping) and keys.chat in one for one in value):
        rows = ((number, one, _checked(one), number) for number, one in enumerate(value, 1))
        yield from grouped(rows, keys, chats, speakers, whole=True)
        return
    for number, record in enumerate(chats_of_json(value), 1):
        yield from make_entries(number, number, partial(read_record, speakers=speakers), record)


def _transcripts(file: Iterable[bytes], where: str, speakers: Speakers) -> Iterator[Entry]:
    """The chats of a transcript; raises InputError if it is not in UTF-8, or is JSON."""

    def lines() -> Iterator[tuple[int, str, int]]:
        end = 0
        for number, line in enumerate(split_lines(file), 1):
            end += len(line)
            text = decode(line, f"{where}:{number}", number == 1)
            if number == 1 and JSON.match(text.lstrip()):
                raise InputError(f"{where}: its first line is JSON; --format jsonl reads one chat in each line")
            yield number, text, end

    for number, block, end in blocks(lines(), speakers):
        yield from make_entries(number, end, lambda text: [Chat(read_transcript(text, speakers))], block)


def read_pasted(text: str, speakers: Speakers = USUAL) -> list[Any]:
    """The messages of a pasted chat.

    Without speakers the lines alternate, and the user begins. With ``用户：`` and ``机器人：``, or other known names, a
    line without a speaker continues the message above it. JSON is an object, a list, or a message on each line.

    Raises:
        InputError: the text is empty, is JSON that holds no chat, names unknown speakers, or names a speaker in later
            lines but not in the first.
    """
    messages = pasted_chat(text, speakers).messages
    if not isinstance(messages, list):
        raise InputError(f"messages is {kind_of(messages)}; it must be a list")
    return messages


def pasted_chat(text: str, speakers: Speakers = USUAL) -> Chat:
    """The same chat with the id that its JSON gives it."""
    if not JSON.match(text.lstrip()):
        return Chat(read_lines(text, speakers))
    try:
        value = parse_json(text.strip())
    except InputError:
        # Only a line feed ends a line of JSON; other separators are text.
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        if len(lines) == 1 or not all(line[0] == "{" for line in lines):
            raise
        value = [parse_json(line) for line in lines]
    return read_chat(value, speakers)


def _read_report(content: bytes, where: str) -> list[Entry]:
    """A chat for each output of each attempt of a report of garak, which holds an attempt when made and when evaluated.

    Raises:
        InputError: a line is not JSON, the conversations or outputs of an attempt are no list, or there is no output.
    """
    attempts: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for number, line in enumerate(decode(content, where).split("\n"), 1):
        try:
            value = parse_json(line) if line.strip() else None
        except InputError as error:
            raise InputError(f"{where}:{number}: {error}") from None
        if isinstance(value, Mapping) and value.get("entry_type") == "attempt":
            attempts[str(value.get("uuid") or number)] = f"{where}:{number}", value
    chats = [
        Chat(messages, f"{name}/{output}")
        for name, (place, attempt) in attempts.items()
        for output, messages in enumerate(_attempt(attempt, place))
    ]
    if not chats:
        raise InputError(f"{where}: holds no attempt with an output; a report of garak is named NAME.report.jsonl")
    return [
        entry for number, chat in enumerate(chats, 1) for entry in make_entries(number, number, lambda c: [c], chat)
    ]


def _attempt(attempt: Mapping[str, Any], where: str) -> list[list[dict[str, Any]]]:
    """The chats of an attempt that have an answer. Reports of older versions have the prompt and its outputs."""
    for name in ("conversations", "outputs"):
        if not isinstance(attempt.get(name) or [], list):
            raise InputError(f"{where}: {name} is {kind_of(attempt[name])}; it must be a list")
    chats = [_turns(conversation) for conversation in attempt.get("conversations") or ()]
    if not chats:
        answers = [
            {"role": ASSISTANT, "content": _said(one)} for one in attempt.get("outputs") or () if one is not None
        ]
        chats = [[*_turns(attempt.get("prompt")), answer] for answer in answers]
    return [chat for chat in chats if any(message["role"] == ASSISTANT for message in chat)]


def _turns(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, Mapping) and isinstance(value.get("turns"), list):
        turns = [turn for turn in value["turns"] if isinstance(turn, Mapping)]
        return [{"role": turn.get("role"), "content": _said(turn.get("content"))} for turn in turns]
    return [{"role": USER, "content": _said(value)}]


def _said(value: Any) -> Any:
    return value.get("text") if isinstance(value, Mapping) else value
