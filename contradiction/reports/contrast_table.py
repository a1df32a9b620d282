"""Tables of the counts on contrast pairs: of one detector, and of all that are kept."""

from collections.abc import Mapping
from pathlib import Path

from contradiction.evaluation import contrast
from contradiction.evaluation.contrast import ALL, COUNTS, Counts
from contradiction.io.tables import Table, interval, percent
from contradiction.rates import wilson

SHARES = ("both right", "in order")


def contrast_table(name: str, counts: Counts) -> Table:
    """The counts of one detector by phenomenon; the last row has the shares of all pairs with 95 % Wilson intervals."""
    rows = [[phenomenon, *(str(each[key]) for key in COUNTS)] for phenomenon, each in counts.items()]
    rows.append(["%", "", *_shares(counts[ALL])])
    return Table(f"{name}: contrast pairs", ("phenomenon", "pairs", *SHARES), rows)


def kept_table(folder: str | Path) -> Table | None:
    """A row for each detector with kept counts; None where there are none."""
    kept = contrast.load(folder)
    if not kept:
        return None
    phenomena = [name for name in next(iter(kept.values())) if name != ALL]
    rows = [
        [name, *_shares(counts[ALL]), *(f"{counts[each]['right']} of {counts[each]['pairs']}" for each in phenomena)]
        for name, counts in kept.items()
    ]
    return Table("", ("detector", *SHARES, *phenomena), rows)


def _shares(counts: Mapping[str, int]) -> list[str]:
    pairs, *parts = (counts[key] for key in COUNTS)
    return [f"{percent(part / pairs)} ({interval(wilson(part, pairs))})" for part in parts]
