"""Chooses chats for review by their verdicts: the surest contradictions, the doubtful chats, and a random share."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from contradiction.chats.entries import Entry
from contradiction.errors import InputError
from contradiction.io.lines import read_objects

SEED = 13  # the same chats each time


def choose(entries: Sequence[Entry], verdicts: str | Path, count: int, key: str) -> list[Entry]:
    """Chooses about as many chats of each kind, in the order of the file.

    Args:
        entries: usable chats.
        verdicts: the file that ``cdconv detect --out`` wrote for them.
        count: how many chats to choose.
        key: ``line`` or ``row``, what the numbers of the entries count.

    Raises:
        InputError: a chat has no verdict.
    """
    last = {
        (record[key], record.get("id")): verdict
        for _, record in read_objects(Path(verdicts), key)
        for verdict in record.get("verdicts", [record])
    }
    own = [last.get((entry.number, entry.id)) for entry in entries]
    if None in own:
        number = entries[own.index(None)].number
        raise InputError(
            f"{verdicts}: has no verdict on {key} {number}; it must be what `detect --out` wrote for the file"
        )
    chances = {place: one["probability"] for place, one in enumerate(own) if one and one["probability"] is not None}
    boundary = _boundary([one for one in own if one and one["probability"] is not None])
    places = set(sorted(chances, key=lambda place: -chances[place])[: count // 3])
    doubtful = sorted(chances.keys() - places, key=lambda place: (abs(chances[place] - boundary), place))
    places |= set(doubtful[: count // 3])
    rest = sorted({*range(len(entries))} - places)
    places |= set(Random(SEED).sample(rest, min(len(rest), count - len(places))))
    return [entries[place] for place in sorted(places)]


def _boundary(verdicts: Sequence[Mapping[str, Any]]) -> float:
    """The middle between the lowest probability that was called a contradiction and the highest that was not."""
    called = [verdict["probability"] for verdict in verdicts if verdict["contradiction"]]
    others = [verdict["probability"] for verdict in verdicts if not verdict["contradiction"]]
    return float((min(called, default=1.0) + max(others, default=0.0)) / 2)
