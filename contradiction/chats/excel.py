"""The rows of Excel files (.xlsx), which openpyxl reads."""

import re
import zipfile
from collections.abc import Iterator
from datetime import date, time
from pathlib import Path
from typing import Any

from contradiction.chats.entries import Chats
from contradiction.chats.tables import Row
from contradiction.errors import InputError, first_line
from contradiction.io.packages import check_installed


def excel_rows(path: Path, chats: Chats) -> Iterator[Row]:
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
