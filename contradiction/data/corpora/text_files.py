"""Lines of text files with their places: JSON lines, JSON lists, tab-separated tables."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from contradiction.errors import InputError, kind_of


def read_text(path: Path) -> str:
    """A text file in UTF-8, without a byte order mark; raises InputError for another encoding."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except ValueError as error:
        raise InputError(f"{path}: not UTF-8 ({error})") from None


def read_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Each line that is not empty, with its place. Only a line feed ends a line: other separators are text."""
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            yield f"{path}:{number}", line.rstrip("\r")


def read_json_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Each value of JSON lines or of a JSON list, with its place."""
    text = read_text(path)
    whole = text.lstrip().startswith("[")
    parts = [text] if whole else text.split("\n")
    for number, part in enumerate(parts, start=1):
        if not part.strip():
            continue
        try:
            found = json.loads(part)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}:{number}: neither JSON lines, nor a JSON list, nor a .tsv ({error})") from None
        if whole:
            yield from ((f"{path}:row {row}", item) for row, item in enumerate(found, start=1))
        else:
            yield f"{path}:{number}", found


def read_objects(path: Path, *keys: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each object of a JSON file with its place; raises InputError where one is none, or lacks a key."""
    for where, row in read_json_rows(path):
        if not isinstance(row, Mapping):
            raise InputError(f"{where}: got {kind_of(row)}; a row is one JSON object")
        if missing := [key for key in keys if key not in row]:
            raise InputError(f"{where}: the key {missing[0]!r} is missing; there are {', '.join(map(str, row))}")
        yield where, row


def read_tsv(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Each row of a tab-separated table with a header. Quotes are part of the text, so this is no CSV."""
    header, *lines = (line.rstrip("\r").split("\t") for line in read_text(path).rstrip("\n").split("\n"))
    for number, cells in enumerate(lines, start=2):
        yield f"{path}:{number}", dict(zip(header, cells, strict=False))
