"""The check that the rows of a data set hold texts, for every way in which rows enter."""

from collections.abc import Iterable, Mapping, Sequence

from contradiction.errors import InputError, kind_of


def check_rows(rows: Sequence[object], columns: Iterable[str]) -> None:
    """Raises InputError for the first row that lacks one of the columns, or holds no text there."""
    columns = tuple(columns)
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise InputError(f"row {number} is {kind_of(row)}; it must be an object with {', '.join(columns)}")
        if missing := [name for name in columns if name not in row]:
            raise InputError(f"row {number} has no {missing[0]}; the detector reads {', '.join(columns)}")
    check_texts({name: [row[name] for row in rows] for name in columns})  # type: ignore[index]  # mappings by now


def check_texts(columns: Mapping[str, Iterable[object]], where: str = "") -> None:
    """Raises InputError, which begins with ``where``, for the first row with an utterance that is not text.

    A column may hold several utterances in a row. Rows count from 1.
    """
    wrong = (
        (number, name, value)
        for name, values in columns.items()
        for number, value in enumerate(values, 1)
        if not isinstance(value, str)
        and not (isinstance(value, list | tuple) and all(isinstance(item, str) for item in value))
    )
    if first := min(wrong, key=lambda found: found[0], default=None):
        number, name, value = first
        raise InputError(f"{where}row {number}: {name} is {kind_of(value)}; it must be text")
