"""Reads the texts of a corpus from text files, JSON lines, and data repos."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from contradiction.errors import InputError, first_line
from contradiction.inputs.views import simplified
from contradiction.io.quiet import no_data_bars


def read_texts(sources: Iterable[str | Path]) -> Iterator[str]:
    """The texts of all sources, in their order, without blank ones.

    A text in traditional characters is followed by its simplified form, which a detector reads instead.

    Args:
        sources: text files, JSON lines files, or data repos (folders that ``load_dataset`` reads). Each line of a text
            file is a text. All strings of the JSON objects are texts, and all strings of all splits of the default
            config of a data repo. Files are in UTF-8.

    Raises:
        InputError: a source cannot be read.
    """
    for source in sources:
        path = Path(source)
        texts = _of_data_repo(path) if path.is_dir() else _of_file(path)
        for text in texts:
            if text.strip():
                yield from dict.fromkeys((text, simplified(text)))


def _of_file(path: Path) -> Iterator[str]:
    json_lines = None
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                row = _object(line)
                if json_lines is None:
                    json_lines = row is not None
                if json_lines and row is None:
                    raise InputError(f"{path}:{number}: not a JSON object, unlike the lines before it")
                yield from _strings(row) if json_lines else (line.rstrip("\n"),)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file in UTF-8 ({error.reason} at byte {error.start})") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); a corpus is a file or a data repo") from None


def _object(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings(list(value.values()))
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _of_data_repo(folder: Path) -> Iterator[str]:
    from datasets import get_dataset_config_names, get_dataset_default_config_name, load_dataset
    from datasets.exceptions import DatasetsError

    try:
        with no_data_bars():
            names = get_dataset_config_names(str(folder))
            splits = load_dataset(str(folder), get_dataset_default_config_name(str(folder)) or names[0])
    except (DatasetsError, ValueError, OSError) as error:
        raise InputError(f"{folder}: a folder that is no data repo ({first_line(error)})") from error
    for rows in splits.values():
        for row in rows:
            yield from _strings(row)
