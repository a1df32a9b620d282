"""The one error for what users hand in; the command line prints it as one line and exits with 2."""

from collections.abc import Mapping
from types import NoneType


class InputError(ValueError):
    """Something handed in is not usable; the message names what, where, and what would be right."""


def first_line(error: BaseException) -> str:
    """What an error of a library says, for the line of ours that names it; its kind where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


# In order: true and false are numbers to Python.
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (NoneType, "null"),
    (bool, "true or false"),
    ((int, float), "a number"),
    (str, "text"),
    (Mapping, "an object"),
    ((list, tuple), "a list"),
)


def kind_of(value: object) -> str:
    """What a value is, in the words of JSON; in Python's where JSON has none for it."""
    name = type(value).__name__
    return next((said for kinds, said in _KINDS if isinstance(value, kinds)), f"a value of the type {name}")
