"""The rows of CSV, TSV and Excel files."""

import csv
import re
import zipfile
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import date, time
from itertools import chain
from pathlib import Path
from typing import Any

from contradiction.chats import names
from contradiction.chats.entries import Chats
from contradiction.chats.text import decode, split_lines
from contradiction.errors import InputError, first_line
from contradiction.io.environment import check_installed

# A row of a file: its text, its cells or why there are none, and where it ends.
Cells = tuple[str, list[str] | InputError, int]
DELIMITERS = {"csv": ",", "tsv": "\t"}
# Characters: longer than any chat, and short enough that an open quote does not swallow a large file.
MAX_CELL = 1 << 24
# The errors of csv for an open quote: at the end of the file, of a long file, and where a later quote "closes" it.
UNCLOSED = ("unexpected end of data", "field larger than field limit", "expected after")
NOT_CLOSED = "a quote that is not closed; only this line is rejected"
_SEPARATOR = re.compile(r"sep=(.)")  # the first line of files for Excel


def csv_rows(file: Iterable[bytes], where: str, format: str) -> Iterator[Cells]:
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


def _csv_rows(begin: bytes, file: Iterator[bytes], where: str, delimiter: str, first: int) -> Iterator[Cells]:
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


def excel_rows(path: Path, chats: Chats) -> Iterator[Cells]:
    """The rows of the first sheet that holds any, the header first; a note names further sheets.

    Raises:
        InputError: openpyxl is not installed, or this is no Excel file.
    """
    check_installed(f"{path}: reading Excel files", {"openpyxl": "excel"})
    from openpyxl import load_workbook
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        book = load_workbook(path, read_only=True, data_only=True)
        filled = [sheet for sheet in book.worksheets if any(map(_texts, _rows(sheet, last=9)))]
        if len(filled) > 1:
            others = ", ".join(sheet.title for sheet in filled[1:4])
            chats.notes.append(f"{path}: only its first sheet, {filled[0].title}, is read; not read: {others}")
        width = 0
        for number, row in enumerate(_rows(filled[0]) if filled else ()):
            if cells := _texts(row):
                width = width or len(cells)
                cells += [""] * (width - len(cells))
                yield "\t".join(cells), cells, number
    except (zipfile.BadZipFile, InvalidFileException, OSError, ValueError, KeyError, EOFError, SyntaxError) as error:
        raise InputError(f"{path}: no Excel file that can be read ({first_line(error)})") from None


def _rows(sheet: Any, last: int | None = None) -> Iterator[tuple[Any, ...]]:
    yield from sheet.iter_rows(max_row=last, values_only=True)


def unpacked_excel(path: Path) -> int:
    """How many bytes the parts of an Excel file fill when they are unpacked; raises InputError if it is none."""
    try:
        with zipfile.ZipFile(path) as file:
            return sum(part.file_size for part in file.infolist())
    except (zipfile.BadZipFile, OSError) as error:
        raise InputError(f"{path}: no Excel file that can be read ({first_line(error)})") from None


def _texts(row: tuple[Any, ...]) -> list[str]:
    """The cells of a row as text, without empty ones at its end."""
    texts = [_text(cell) for cell in row]
    while texts and not texts[-1]:
        texts.pop()
    return texts


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, date | time):
        return str(cell)
    return re.sub(r"_x000D_\n?", "\n", str(cell))
