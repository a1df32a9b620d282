"""The table of label names, and what follows from it. Everything is resolved by name.

``cdconv.py`` and ``evaluate_metric/evaluate_metric.py`` are published as files of their own and so carry a copy; a test
holds the three equal.
"""

from collections.abc import Iterable, Mapping

NON_CONTRADICTION = "non-contradiction"
CONTRADICTION = "contradiction"
INTRA, ROLE, HISTORY = "intra-sentence", "role-confusion", "history"

# Task -> label names; the position is the class id.
LABELS: Mapping[str, tuple[str, ...]] = {
    "2-class": (NON_CONTRADICTION, CONTRADICTION),
    "4-class": (NON_CONTRADICTION, INTRA, ROLE, HISTORY),
    "persona": ("unrelated", "attributes", "opinions", "experiences"),
}
GROUPED = "-grouped"
CONFIGS = tuple(task + suffix for suffix in ("", GROUPED) for task in LABELS)


def task_of(config: str) -> str:
    """The task of a data set config: ``4-class-grouped`` -> ``4-class``."""
    return config.removesuffix(GROUPED)


def task_with(names: Iterable[str]) -> str | None:
    """The task that has exactly these label names, in any order; None if there is none."""
    found = sorted(names)
    return next((task for task, labels in LABELS.items() if sorted(labels) == found), None)


def merge(scores: Mapping[str, float]) -> dict[str, float]:
    """4-class probabilities -> 2-class probabilities: those of the three contradictions are summed."""
    fine = scores[NON_CONTRADICTION]
    return {NON_CONTRADICTION: fine, CONTRADICTION: sum(scores[label] for label in (INTRA, ROLE, HISTORY))}
