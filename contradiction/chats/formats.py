"""What files hold, whatever it says: lines of text, JSON values, and the rows of CSV, Excel and Parquet."""

import ast
import codecs
import csv
import gzip
import json
import re
import zipfile
import zlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any

from contradiction.chats.names import is_header
from contradiction.errors import InputError, first_line
from contradiction.io.environment import check_installed

PIECE = 1 << 18  # bytes that are read at once: enough for full batches, few enough to answer a pipe soon
GZIP = b"\x1f\x8b"  # how a gzip file begins
NOT_UTF8 = "not in UTF-8; save it as UTF-8, or name its encoding, for instance with --encoding gb18030 (or utf-16)"

Values = Mapping[str, Any]  # column or key -> value
# A row of a table: its number, what is kept of it if it is rejected, its values or why there are none, where it ends.
Row = tuple[int, Any, Values | InputError, int]
Cells = tuple[str, list[str] | InputError, int]  # a row before its columns have names: its text, its cells, its end

DELIMITERS = {"csv": ",", "tsv": "\t"}
# Characters: longer than any chat, and short enough that an open quote does not swallow a large file.
MAX_CELL = 1 << 24
MAX_ROWS, MAX_COLUMNS = 1 << 20, 1000  # of a sheet: the rows that Excel allows, and more columns than chats have
NOT_CLOSED = "a quote that is not closed; only this line is rejected"
ROWS_AT_ONCE = 1024  # rows of Parquet in memory


def check_encoding(encoding: str | None) -> None:
    """Raises InputError for the name of an encoding that Python does not know."""
    try:
        b"a".decode("utf-8" if encoding is None else encoding, "replace")
    except (LookupError, UnicodeError, ValueError):
        raise InputError(
            f"encoding {str(encoding)[:40]!r}: is unknown; usual ones are gb18030, big5, utf-16 and utf-8"
        ) from None


def stream_blocks(stream: Any, where: str, encoding: str | None = None) -> Iterator[bytes]:
    """The content of a buffered file or pipe as it comes, unpacked if it is gzip, and in UTF-8 if an encoding is named.

    Raises:
        InputError: a gzip file is damaged, or the bytes are not in this encoding.
    """
    if not (begin := stream.peek(2)):  # a terminal would have to be told twice that its input ends
        return
    if begin.startswith(GZIP):
        stream = gzip.GzipFile(fileobj=stream)
    parts = _parts(stream, where)
    yield from _converted(parts, where, encoding) if encoding else parts


def _parts(stream: Any, where: str) -> Iterator[bytes]:
    try:
        while part := stream.read1(PIECE):
            yield part
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{where}: is no gzip file, or is damaged ({error})") from None


def _converted(parts: Iterable[bytes], where: str, encoding: str) -> Iterator[bytes]:
    line = 1
    try:
        for text in codecs.iterdecode(parts, encoding):
            line += text.count("\n")
            yield text.encode("utf-8", "surrogatepass")
    except UnicodeError as error:  # UTF-16 without a byte order mark is no UnicodeDecodeError
        if isinstance(error, UnicodeDecodeError):
            line += error.object[: error.start].decode(encoding, "replace").count("\n")
        raise InputError(f"{where}:{line}: not in {encoding}; --encoding names another one") from None


def file_blocks(path: Path, encoding: str | None = None) -> Iterator[bytes]:
    """The content of a file, see :func:`stream_blocks`."""
    with path.open("rb") as file:
        yield from stream_blocks(file, str(path), encoding)


def arriving_lines(parts: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Groups of the complete lines that have come, with their ends; a carriage return alone ends a line too."""
    pending: list[bytes] = []
    for part in parts:
        head, newline, tail = part.rpartition(b"\n")
        if newline:
            yield b"".join([*pending, head, newline]).splitlines(keepends=True)
            pending = []
        pending.append(tail)
    if rest := b"".join(pending):
        yield rest.splitlines(keepends=True)


def decode(content: bytes, where: str, first: bool = True) -> str:
    """The text of bytes in UTF-8; the ``first`` ones of a file may begin with a byte order mark.

    Raises:
        InputError: the bytes are not in UTF-8; the message begins with ``where``.
    """
    try:
        return content.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{where}: {NOT_UTF8}") from None


# How text that is JSON, or what Python prints of such values, begins.
JSON = re.compile(r"\[\s*[{\[\]]|\{\s*[\"'}]")


def parse_json(text: bytes | str) -> Any:
    """Parses JSON; raises InputError if it is not valid, or if an object has a key twice."""
    try:
        text = text if isinstance(text, str) else text.decode("utf-8-sig")
        return json.loads(text, object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise InputError(f"not in UTF-8 (from byte {error.start} on); --encoding gb18030 reads that encoding") from None
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in error.doc else ""  # of one line, the caller names the number
        raise InputError(f"not JSON ({error.msg}, {line}column {error.colno})") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error})") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; of a key that occurs twice, Python would keep the last value and drop the other one unseen."""
    if len(values := dict(pairs)) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"an object has the key {twice[:60]!r} twice")
    return values


def parsed(value: Any) -> Any:
    """The value of a cell that holds JSON, or what Python prints of a list of messages; any other value unchanged."""
    if not isinstance(value, str) or not JSON.match(text := value.lstrip()):
        return value
    try:
        return parse_json(text)
    except InputError as error:
        if str(error).endswith(" twice)"):  # Python's own reading would drop a value too
            raise
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        if isinstance(printed := ast.literal_eval(text), list | dict):
            return printed
    return value


def csv_rows(lines: Iterable[bytes], where: str, format: str) -> Iterator[Cells]:
    """The rows of the lines of CSV or TSV, the header first.

    The delimiter is the one that a first line ``sep=;`` names, or the first of the format's own, comma, semicolon and
    tab with which the first line names columns of chats. If a quote is not closed, only its line is rejected. The lines
    after it are read again, each as a row of its own up to the line that showed the error, so no line is read often.
    """
    csv.field_size_limit(max(MAX_CELL, csv.field_size_limit()))  # of the process, so it is never lowered
    decoded = ((decode(line, f"{where}:{number}", number == 1), len(line)) for number, line in enumerate(lines, 1))
    first, end = next(decoded, ("", 0)), 0
    if named := re.fullmatch(r"\"?sep=(.)\"?\s*", first[0]):  # in files for Excel
        first, end = next(decoded, ("", 0)), first[1]
    usual = (DELIMITERS[format], ",", ";", "\t")
    fitting = (one for one in usual if is_header(header_cells(first[0].strip(), one)))
    delimiter = named[1] if named else next(fitting, usual[0])
    again = deque([first])  # lines that are read before further ones
    row: list[tuple[str, int]] = []  # the lines of a row
    single = 0  # how many of the next lines are a row each

    def row_lines() -> Iterator[str]:
        while line := again.popleft() if again else next(decoded, None):
            row.append(line)
            yield line[0]
            if row and single > 0:
                raise csv.Error

    reader = csv.reader(row_lines(), delimiter=delimiter, strict=True)
    while True:
        row.clear()
        try:
            cells: list[str] | InputError = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            unclosed = len(row) > 1 or not str(error) or "unexpected end" in str(error)
            cells = InputError(NOT_CLOSED if unclosed else f"not a row of cells ({error})")
            single = max(single, len(row) - 1)
            again.extendleft(reversed(row[1:]))
            del row[1:]
            reader = csv.reader(row_lines(), delimiter=delimiter, strict=True)
        single -= 1
        end += sum(size for _, size in row)
        if cells:
            yield "".join(text for text, _ in row).rstrip("\r\n"), cells, end


def header_cells(line: str, delimiter: str) -> list[str]:
    """The names of columns in the first line of a table."""
    return [name.strip().strip('"') for name in line.split(delimiter)]


def is_table(line: str) -> bool:
    """Whether a line is the header of a table of chats."""
    return any(is_header(header_cells(line, delimiter)) for delimiter in ",\t;")


def excel_rows(path: Path, notes: list[str]) -> Iterator[Cells]:
    """The rows of the first sheet that holds any, the header first; a note names further sheets.

    Raises:
        InputError: openpyxl is not installed, or this is no Excel file.
    """
    check_installed(f"{path}: reading Excel files", {"openpyxl": "excel"})
    import openpyxl

    try:
        with path.open("rb") as file:
            book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
            sheets = {sheet.title: rows for sheet in book.worksheets if (rows := [*_sheet_rows(sheet)])}
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError, KeyError, EOFError, SyntaxError) as error:
        raise InputError(f"{path}: no Excel file that can be read ({first_line(error)})") from None
    if len(sheets) > 1:
        first, *others = sheets
        notes.append(f"{path}: only its first sheet, {first}, is read; not read: {', '.join(others[:3])}")
    rows = next(iter(sheets.values()), [])
    width = max((len(row) for _, row in rows), default=0)
    for number, row in rows:
        cells = [re.sub(r"_x000D_\n?", "\n", cell) for cell in row]  # how Excel writes a carriage return
        cells += [""] * (width - len(cells))
        yield "\t".join(cells), cells, number


def _sheet_rows(sheet: Any) -> Iterator[tuple[int, list[str]]]:
    """The rows of a sheet that hold anything, with their places, up to their last cell that holds anything.

    A small file may name a far cell, and openpyxl makes all the cells before it: raises ValueError for such a file.
    """
    sheet.reset_dimensions()  # those that the file gives may be wrong
    for number, row in enumerate(sheet.iter_rows(values_only=True)):
        if number >= MAX_ROWS or len(row) > MAX_COLUMNS:
            raise ValueError(f"it has more than {MAX_ROWS:,} rows or {MAX_COLUMNS:,} columns")
        cells = [_cell_text(value) for value in row]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield number, cells


def _cell_text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "" if value is None else str(value)


def parquet_columns(path: Path) -> tuple[list[str], Mapping[str, Sequence[str]], int]:
    """The columns of a Parquet file, the names of the classes of columns of numbers, and the number of rows.

    Raises:
        InputError: it is not a Parquet file.
    """
    import pyarrow
    from pyarrow import parquet

    with path.open("rb") as file:
        try:
            opened = parquet.ParquetFile(file)
            schema, rows = opened.schema_arrow, opened.metadata.num_rows
            names = schema.names
        except (pyarrow.ArrowException, OSError, ValueError) as error:  # pyarrow raises any of them
            raise InputError(f"{path}: no Parquet file ({first_line(error)})") from None
    # The library datasets writes the names of classes into the file; what else may be there bears on no chat.
    classes: Mapping[str, Sequence[str]] = {}
    with suppress(InputError, LookupError, TypeError, AttributeError):
        features = parse_json((schema.metadata or {})[b"huggingface"])["info"]["features"]
        classes = {
            column: feature["names"]
            for column, feature in features.items()
            if isinstance(feature, Mapping) and feature.get("_type") == "ClassLabel"
        }
    return names, classes, rows


def parquet_rows(
    path: Path, columns: Sequence[str], rows: range, classes: Mapping[str, Sequence[str]]
) -> Iterator[Row]:
    """Consecutive rows of a Parquet file, counted from 1, which are read bit by bit; ``columns`` are read."""
    import pyarrow
    from pyarrow import parquet

    number = total = 0
    with path.open("rb") as file:
        try:
            opened = parquet.ParquetFile(file)
            footer = opened.metadata
            total = footer.num_rows
            ends = accumulate(footer.row_group(group).num_rows for group in range(footer.num_row_groups))
            for group, end in enumerate(ends):
                if end < rows.start or number + 1 >= rows.stop:
                    number = end
                    continue
                for batch in opened.iter_batches(ROWS_AT_ONCE, row_groups=[group], columns=list(columns)):
                    for place in range(batch.num_rows):
                        number += 1
                        if number in rows:
                            yield _parquet_row(number, {name: batch[name][place] for name in columns}, classes)
                if number != end:
                    break
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise InputError(f"{path}: damaged after row {number} ({first_line(error)})") from None
    if number != total:  # pyarrow reads some damaged files without an error
        raise InputError(f"{path}: damaged; its footer says {total:,} rows, and {number:,} can be read")


def _parquet_row(number: int, cells: Mapping[str, Any], classes: Mapping[str, Sequence[str]]) -> Row:
    """The cells of a row as Python values, and classes by their names."""
    values: dict[str, Any] = {}
    problem = None
    for name, cell in cells.items():
        try:
            value = cell.as_py()
        except UnicodeDecodeError:
            value, problem = None, InputError(f"{name}: text that is not in UTF-8")
        # A year after 9999, an unknown time zone, a field that occurs twice.
        except (ValueError, OverflowError, LookupError) as error:
            value, problem = None, InputError(f"{name}: a {cell.type} that Python cannot hold ({error})")
        if isinstance(value, int) and (known := classes.get(name)):
            value = known[value] if 0 <= value < len(known) else None  # -1 is no label
        values[name] = value
    return number, values, problem or values, number
