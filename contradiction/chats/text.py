"""Bytes as text: gzip, encodings such as GB18030, which many Chinese programs write, lines, and JSON."""

import ast
import codecs
import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BufferedIOBase, BufferedReader, RawIOBase
from pathlib import Path
from typing import Any

from contradiction.errors import InputError

PIECE = 1 << 16  # bytes that are converted at once
GZIP = b"\x1f\x8b"  # how a gzip file begins
NOT_UTF8 = "not in UTF-8; save it as UTF-8, or name its encoding, for instance with --encoding gb18030 (or utf-16)"


def decode(content: bytes, where: str, first: bool = True) -> str:
    """The text of bytes in UTF-8; the ``first`` ones of a file may begin with a byte order mark.

    Raises:
        InputError: the bytes are not in UTF-8; the message begins with ``where``.
    """
    if first and content.startswith(GZIP):
        raise InputError(f"{where}: is packed with gzip; name a file that ends in .gz, or unpack it before the pipe")
    try:
        return content.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{where}: {NOT_UTF8}") from None


def open_utf8(path: Path, encoding: str | None = None) -> BufferedIOBase:
    """A file as bytes in UTF-8, unpacked if it is a gzip file; raises InputError as :func:`as_utf8` does."""
    file: Any = path.open("rb")
    if path.suffix.lower() == ".gz" or file.peek(2).startswith(GZIP):
        file = BufferedReader(_Unpacked(file, str(path)), PIECE)
    return as_utf8(file, encoding, str(path))


def split_lines(stream: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a stream; a carriage return alone ends a line too, as in files of old programs."""
    for line in stream:
        if line.find(b"\r", 0, len(line) - 2) < 0:
            yield line
        else:
            yield from line.splitlines(keepends=True)


def as_utf8(stream: BufferedIOBase, encoding: str | None, where: str) -> BufferedIOBase:
    """A stream of bytes as UTF-8; the same stream if no encoding is named.

    Raises:
        InputError: the encoding is unknown, or, while the stream is read, the bytes are not in it.
    """
    if encoding is None:
        return stream
    try:
        "a".encode(encoding)
    except (LookupError, UnicodeError, ValueError):
        raise InputError(
            f"encoding {encoding[:40]!r}: is unknown; usual ones are gb18030, big5, utf-16 and utf-8"
        ) from None
    converted: Any = BufferedReader(_Converter(stream, encoding, where), PIECE)  # to mypy no BufferedIOBase
    return converted


class _Unpacked(RawIOBase):
    """Reads a gzip file; a damaged one raises InputError."""

    def __init__(self, file: BufferedIOBase, where: str) -> None:
        self._file, self._packed, self._where = file, gzip.GzipFile(fileobj=file), where

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            part = self._packed.read1(len(buffer))
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{self._where}: is no gzip file, or is damaged ({error})") from None
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Converter(RawIOBase):
    """Reads a stream and converts it to UTF-8."""

    def __init__(self, stream: BufferedIOBase, encoding: str, where: str) -> None:
        self._stream, self._encoding, self._where = stream, encoding, where
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._converted, self._lines, self._ended = b"", 1, False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._converted and not self._ended:
            part = self._stream.read1(PIECE)
            self._ended = not part
            self._converted = self._decode(part).encode("utf-8", "surrogatepass")
        size = min(len(buffer), len(self._converted))
        buffer[:size], self._converted = self._converted[:size], self._converted[size:]
        return size

    def _decode(self, part: bytes) -> str:
        try:
            text = self._decoder.decode(part, final=self._ended)
        except UnicodeDecodeError as error:
            readable = error.object[: error.start].decode(self._encoding, "replace")
            line = self._lines + readable.count("\n")
            raise InputError(f"{self._where}:{line}: not in {self._encoding}; --encoding names another one") from None
        self._lines += text.count("\n")
        return text

    def close(self) -> None:
        self._stream.close()
        super().close()


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
