"""The rows of CSV and TSV; a quote that is never closed costs only its line."""

import csv
import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain

from contradiction.chats import names
from contradiction.chats.streams import decode, split_lines
from contradiction.chats.tables import Row
from contradiction.errors import InputError

DELIMITERS = {"csv": ",", "tsv": "\t"}
# Characters: longer than any chat, and short enough that an open quote does not swallow a large file.
MAX_CELL = 1 << 24
# The errors of csv for an open quote: at the end of the file, of a long file, and where a later quote "closes" it.
UNCLOSED = ("unexpected end of data", "field larger than field limit", "expected after")
NOT_CLOSED = "a quote that is not closed; only this line is rejected"
_SEPARATOR = re.compile(r"sep=(.)")  # the first line of files for Excel


def csv_rows(file: Iterable[bytes], where: str, format: str) -> Iterator[Row]:
    """The rows of the lines of CSV or TSV, the header first.

    The delimiter is the one that a first line ``sep=;`` names, or the first of the format's own, comma, semicolon and
    tab with which the first line names columns of chats.
    """
    csv.field_size_limit(max(MAX_CELL, csv.field_size_limit()))  # of the process, so it is never lowered
    lines = split_lines(file)
    begin = next(lines, b"")
    text = decode(begin, f"{where}:1").strip()
    named = _SEPARATOR.fullmatch(text.strip('"'))
    delimiters = [named[1]] if named else [DELIMITERS[format], ",", ";", "\t"]
    first = 1
    if named:
        first, skipped, begin = 2, len(begin), next(lines, b"")
        text = decode(begin, f"{where}:2").strip()
    fitting = [one for one in delimiters if names.is_header(header_cells(text, one))]
    rows = _csv_rows(begin, lines, where, (fitting or delimiters)[0], first)
    yield from ((raw, cells, end + skipped) for raw, cells, end in rows) if named else rows


def header_cells(line: str, delimiter: str) -> list[str]:
    """The names of columns in the first line of a table."""
    return [name.strip().strip('"') for name in line.split(delimiter)]


def hint_at_table(first_line: str) -> str | None:
    """A hint if the first line of JSON lines is the header of a table; else None."""
    for format, delimiter in (("csv", ","), ("tsv", "\t"), ("csv", ";")):
        if names.is_header(columns := header_cells(first_line, delimiter)):
            listed = ", ".join(columns[: names.MAX_NAMES])
            return f"its first line names columns ({listed}); --format {format} reads it"
    return None


def _csv_rows(begin: bytes, file: Iterator[bytes], where: str, delimiter: str, first: int) -> Iterator[Row]:
    """The text of each row, its cells (or why there are none), and where it ends in bytes.

    A quote that is never closed would take the rest of the file into one row. Only the line that it stands in is then
    rejected, and the lines after it are read again, each only once: a quote that is open at the end of one of them is
    not closed either.
    """
    numbered = enumerate(chain([begin] if begin else [], file), first)
    again: deque[tuple[int, bytes]] = deque()  # lines that are read again, before further ones of the file
    row_lines: list[tuple[int, bytes]] = []
    unclosed = end = 0  # in lines before this one, a quote that is open at the end is never closed

    def text_of(number: int, line: bytes) -> str:
        return decode(line, f"{where}:{number}", number == 1)

    def lines() -> Iterator[str]:
        while line := again.popleft() if again else next(numbered, None):
            row_lines.append(line)
            yield text_of(*line)
            if row_lines and row_lines[-1][0] < unclosed:
                raise csv.Error(NOT_CLOSED)

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    while True:
        row_lines.clear()
        try:
            cells: list[str] | InputError = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            cells, reason = InputError(f"not a row of cells ({error})"), str(error)
            if reason == NOT_CLOSED or (len(row_lines) > 1 and any(phrase in reason for phrase in UNCLOSED)):
                cells = InputError(NOT_CLOSED)
                unclosed = max(unclosed, row_lines[-1][0])
                again.extendleft(reversed(row_lines[1:]))
                del row_lines[1:]
                reader = csv.reader(lines(), delimiter=delimiter, strict=True)
        end += sum(len(line) for _, line in row_lines)
        if cells:
            yield "".join(text_of(*line) for line in row_lines).rstrip("\r\n"), cells, end
