"""The order in which messages were sent, by their times."""

import re
from collections.abc import Sequence
from itertools import pairwise

from contradiction.conversation import USER

_AFTERNOON = re.compile(r"下午|晚上|傍晚|\bp\.?m\b", re.IGNORECASE)
_MORNING = re.compile(r"上午|凌晨|早上|\ba\.?m\b", re.IGNORECASE)
_CLOCK = re.compile(r"(?<!\d)(\d{1,2})[:：时](\d{2})(?:[:：分](\d{2}(?:\.\d+)?))?")
_DATE = re.compile(r"(\d{4})[-/.年](\d{1,2})[-/.月](\d{1,2})|(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})|(\d{1,2})月(\d{1,2})")

Moment = tuple[float, ...]
CLOCK = 3  # numbers of a time of day without a date


def moment(value: object) -> Moment | None:
    """A time as numbers that can be compared with others of the same kind; None if it is no time.

    A number counts as it is. Of a date with the year last, the order of day and month is unknown, so it does not
    compare with another such date.
    """
    if isinstance(value, bool) or value is None:
        return None
    text = str(value).strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return (float(text),)
    clock, date = _CLOCK.search(text), _DATE.search(text)
    if not clock and not date:
        return None
    hour, minute, second = (float(part or 0) for part in clock.groups()) if clock else (0.0, 0.0, 0.0)
    if _AFTERNOON.search(text) and hour < 12:
        hour += 12
    elif _MORNING.search(text) and hour == 12:
        hour = 0.0
    return (*(float(part) for part in (date.groups() if date else ()) if part), hour, minute, second)


def moments(values: Sequence[object]) -> list[Moment] | None:
    """The times of messages; None if one is missing, or if they cannot be compared with one another."""
    read = [moment(value) for value in values]
    times = [time for time in read if time is not None]
    if len(times) < len(values) or len({len(time) for time in times}) > 1:
        return None
    year_last = [time for time in times if len(time) == 6 and time[0] < 1000 <= time[2]]
    return None if len({time[:3] for time in year_last}) > 1 else times


def order(values: Sequence[object], roles: Sequence[str | None]) -> list[int] | None:
    """The places of messages from the oldest to the newest; None if they are in this order, or have no times."""
    times = moments(values)
    if not times or times == sorted(times):
        return None
    if not _is_reversed(times):
        # A clock without a date may have passed midnight.
        return None if len(times[0]) == CLOCK else _sorted(times)
    # Messages of one time may be the other way round too. In a chat the sides alternate, and the user begins.
    places = [[*reversed(range(len(times)))], _sorted(times)]

    def likelihood(order: list[int]) -> tuple[int, bool]:
        sides = [roles[place] for place in order]
        return sum(one != other for one, other in pairwise(sides)), sides[0] == USER

    return max(places, key=likelihood)


def newest_first(values: Sequence[object]) -> bool:
    """Whether the messages begin with the newest."""
    times = moments(values)
    return times is not None and times != sorted(times) and _is_reversed(times)


def _sorted(times: Sequence[Moment]) -> list[int]:
    return sorted(range(len(times)), key=times.__getitem__)


def _is_reversed(times: Sequence[Moment]) -> bool:
    """Whether no time is later than the one before it; two clocks without a date may lie around midnight."""
    return times == sorted(times, reverse=True) and (len(times[0]) != CLOCK or len(times) > 2)
