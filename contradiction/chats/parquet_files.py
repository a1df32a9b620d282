"""The chats of Parquet files, which are read bit by bit."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from contradiction.chats import names
from contradiction.chats.entries import UNREADABLE, Chats, make_entries
from contradiction.chats.messages import USUAL, Speakers
from contradiction.chats.records import CHAT, Chat, read_record
from contradiction.chats.tables import columns_of, grouped
from contradiction.chats.text import parse_json
from contradiction.errors import InputError, first_line

ROWS_AT_ONCE = 1024  # rows of Parquet in memory


def open_parquet(path: Path, rows: range | None = None, speakers: Speakers = USUAL) -> Chats:
    """The chats of a Parquet file, or of consecutive ``rows`` of it, counted from 1, with a chat in each.

    Raises:
        InputError: it is not a Parquet file, or there is no chat in the columns.
    """
    import pyarrow
    from pyarrow import parquet

    with path.open("rb") as file:
        try:
            opened = parquet.ParquetFile(file)
            schema, footer = opened.schema_arrow, opened.metadata
        except (pyarrow.ArrowException, OSError, ValueError) as error:  # pyarrow raises any of them
            raise InputError(f"{path}: no Parquet file ({first_line(error)})") from None
    where = str(path)
    grouping = columns_of(schema.names, where) if rows is None else None
    columns = [*grouping.read] if grouping else names.read_among(schema.names)
    for name in columns:
        if (times := [*map(names.plain, schema.names)].count(names.plain(name))) > 1:
            raise InputError(f"{where}: {times} columns are called {name}; rename all but one")
    chats = Chats(where, "parquet", [], footer.num_rows if rows is None else len(rows))
    found = _rows(path, columns, rows or range(1, footer.num_rows + 1))
    values = partial(_values, _class_names(schema))
    if grouping:
        given = ((number, row, _or_error(values, row), number) for number, row in found)
        return replace(chats, arrivals=[grouped(given, grouping, chats, speakers)])
    if not names.holds_chats(schema.names):
        raise InputError(f"{where}: it has {names.list_names(schema.names, 'column')}; a chat must be {CHAT}")
    if (session := names.lacks_history(schema.names)) and not names.has_turns(schema.names):
        raise InputError(f"{where}: it {names.NO_HISTORY.format(session)}")

    def read(row: dict[str, Any]) -> list[Chat]:
        return read_record(values(row), speakers)

    return replace(chats, arrivals=[(e for number, row in found for e in make_entries(number, number, read, row))])


def _class_names(schema: Any) -> Mapping[str, list[str]]:
    """Column -> the names of its classes, which the library datasets writes into the file; the cells are numbers."""
    features = parse_json((schema.metadata or {}).get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    return {
        column: feature["names"]
        for column, feature in features.items()
        if isinstance(feature, Mapping) and feature.get("_type") == "ClassLabel"
    }


def unpacked_parquet(path: Path, limit: int) -> int:
    """How many bytes the chats of a Parquet file fill when they are read, counted until a limit is passed.

    Compression makes a file smaller, and so does the dictionary of a column: a text that stands in many cells is
    stored once. The dictionaries are kept while the texts are counted, so counting does not fill the memory.

    Raises:
        InputError: the file is damaged.
    """
    import pyarrow
    from pyarrow import parquet

    with path.open("rb") as file:
        try:
            footer = parquet.read_metadata(file)
            groups = [footer.row_group(group) for group in range(footer.num_row_groups)]
            size = sum(group.total_byte_size for group in groups)
            texts = set()
            for place in range(footer.num_columns):
                column = footer.schema.column(place)
                # An offset or a number has four bytes, or more in a column of a fixed width.
                width = max(4, column.length or 0)
                size = max(size, width * sum(group.column(place).num_values for group in groups))
                if column.physical_type == "BYTE_ARRAY":
                    texts.add(column.path)
            counted = 0
            opened = parquet.ParquetFile(file, read_dictionary=sorted(texts))
            for batch in opened.iter_batches(batch_size=ROWS_AT_ONCE) if size <= limit else ():
                counted += sum(map(_text_bytes, batch.columns))
                if counted > limit:
                    break
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise InputError(f"{path}: damaged ({first_line(error)})") from None
    return max(size, counted)


def _text_bytes(array: Any) -> int:
    """The bytes of the texts in an Arrow array of any type."""
    from pyarrow import compute, types

    if types.is_dictionary(array.type):
        return compute.sum(compute.binary_length(array.dictionary).take(array.indices)).as_py() or 0
    if types.is_struct(array.type):
        return sum(map(_text_bytes, array.flatten()))
    if types.is_map(array.type):
        return _text_bytes(array.keys) + _text_bytes(array.items)
    if types.is_list(array.type) or types.is_large_list(array.type) or types.is_fixed_size_list(array.type):
        return _text_bytes(array.flatten())
    if types.is_string(array.type) or types.is_large_string(array.type) or types.is_binary(array.type):
        return compute.sum(compute.binary_length(array)).as_py() or 0
    return 0


def _rows(path: Path, columns: list[str], rows: range) -> Iterator[tuple[int, dict[str, Any]]]:
    """The numbers of the rows and their cells, as pyarrow gives them; ``columns`` are the ones that are read."""
    import pyarrow
    from pyarrow import parquet

    number = end = total = 0
    ends = [0]  # of the row groups
    with path.open("rb") as file:
        try:
            opened = parquet.ParquetFile(file)
            total, footer = opened.metadata.num_rows, opened.metadata
            ends += accumulate(footer.row_group(group).num_rows for group in range(footer.num_row_groups))
            groups = [
                group for group, stop in enumerate(ends[1:]) if ends[group] < rows.stop - 1 and stop >= rows.start
            ]
            number, end = (ends[groups[0]], ends[groups[-1] + 1]) if groups else (0, 0)
            for batch in opened.iter_batches(batch_size=ROWS_AT_ONCE, row_groups=groups, columns=columns):
                first, number = number + 1, number + batch.num_rows
                for row_number in range(max(first, rows.start), min(number + 1, rows.stop)):
                    yield row_number, {name: batch[name][row_number - first] for name in columns}
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise InputError(f"{path}: damaged after row {number} ({first_line(error)})") from None
    if number != end or ends[-1] != total:  # pyarrow reads some damaged files without an error
        raise InputError(f"{path}: damaged; its footer says {total:,} rows, and {number:,} can be read")


def _values(classes: Mapping[str, list[str]], row: dict[str, Any]) -> dict[str, Any]:
    """The cells of a row as Python values, and classes by their names."""
    values = {name: _to_python(name, scalar) for name, scalar in row.items()}
    for name, known in classes.items():
        if isinstance(number := values.get(name), int):
            values[name] = known[number] if 0 <= number < len(known) else None  # -1 is no label
    return values


def _or_error(values: Callable[[Any], dict[str, Any]], row: dict[str, Any]) -> dict[str, Any] | InputError:
    try:
        return values(row)
    except InputError as error:
        return error


def _to_python(name: str, scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        raise InputError(f"{name}: text that is not in UTF-8") from None
    except UNREADABLE as error:
        raise InputError(f"{name}: a {scalar.type} that Python cannot hold ({error})") from None
