"""JSON in texts: lines, files and cells of tables."""

import ast
import json
import re
from collections import Counter
from contextlib import suppress
from typing import Any

from contradiction.errors import InputError

# How text that is JSON, or what Python prints of such values, begins.
JSON = re.compile(r"\[\s*[{\[\]]|\{\s*[\"'}]")


def parse_json(text: bytes | str) -> Any:
    """Parses JSON; raises InputError if it is not valid, or if an object has one key twice."""
    try:
        return json.loads(
            text if isinstance(text, str) else text.decode("utf-8-sig"), object_pairs_hook=_object_of_pairs
        )
    except InputError:  # a ValueError
        raise
    except UnicodeDecodeError as error:
        raise InputError(f"not in UTF-8 (from byte {error.start} on); --encoding gb18030 reads that encoding") from None
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in error.doc else ""  # of one line, the caller names the number
        raise InputError(f"not JSON ({error.msg}, {line}column {error.colno})") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error})") from None


def _object_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object without duplicate keys, of which Python would silently keep the last value."""
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        duplicate = next(name for name, count in counts.items() if count > 1)
        raise InputError(f"ambiguous JSON: an object has the key {duplicate[:60]!r} twice")
    return values


def parsed(value: Any) -> Any:
    """The value of a cell that holds JSON, or what Python prints of a list of messages; any other value unchanged."""
    if not isinstance(value, str) or not JSON.match(text := value.lstrip()):
        return value
    try:
        return parse_json(text)
    except InputError as error:
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            if isinstance(printed := ast.literal_eval(text), list | dict):
                return printed
        if "ambiguous" in str(error):
            raise
        return value
