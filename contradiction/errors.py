"""The error for unusable input, which the command line prints as one line, and exit codes."""

import re
from collections.abc import Collection, Iterable, Mapping
from reprlib import Repr
from types import NoneType

INTERRUPTED = 130  # the exit code after Ctrl-C: 128 + the number of SIGINT
CLOSED_PIPE = 141  # the exit code when the output was closed: 128 + the number of SIGPIPE


class InputError(ValueError):
    """An input is not usable; the message names the input, the place, and what is allowed."""

    def __init__(self, message: str) -> None:
        # A name in an input may hold half of a character, which no response or file of Parquet takes.
        super().__init__(message.encode("utf-8", "backslashreplace").decode("utf-8"))


def first_line(error: BaseException) -> str:
    """The first line of an error's message, to quote in another error; the name of its type if it has no message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


# The order matters: true and false are also numbers in Python.
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (NoneType, "null"),
    (bool, "true or false"),
    ((int, float), "a number"),
    (str, "text"),
    (Mapping, "an object"),
    ((list, tuple), "a list"),
)


def kind_of(value: object) -> str:
    """The JSON name of the type of a value; the Python name if JSON has no such type."""
    type_name = type(value).__name__
    return next((kind for types, kind in _KINDS if isinstance(value, types)), f"a value of the type {type_name}")


_REPR = Repr()  # limits the depth: the built-in repr fails on deeply nested values
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 60


def shown(value: object) -> str:
    """A value as an error message shows it: on one line and shortened."""
    try:
        text = " ".join(_REPR.repr(value).split())
    except ValueError:  # an integer of more digits than Python prints
        return kind_of(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# All but line breaks and tabs, and what reverses the direction of a text.
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def for_terminal(text: str) -> str:
    """A text in which characters that control a terminal are escaped: those of a chat could hide other lines."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def listed(known: Iterable[str], value: object) -> str:
    """The known names for an error about another one, then the one that was probably meant."""
    from difflib import get_close_matches  # here, because every import of the package pays for this module

    names = [*known]
    meant = get_close_matches(value, names, 1) if isinstance(value, str) else []
    return ", ".join(names) + (f"; did you mean {meant[0]}?" if meant else "")


def check_known(value: object, known: Collection[str], what: str) -> str:
    """Returns a value; raises InputError, which names what it is, for one that is not among the known ones."""
    if not isinstance(value, str) or value not in known:
        raise InputError(f"{what} {shown(value)}; allowed are {listed(known, value)}")
    return value
