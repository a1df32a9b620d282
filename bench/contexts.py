"""Whether detectors beat n-grams where the context is new: on test rows whose first utterance was not trained on.

    .venv/bin/python bench/contexts.py e5-small-cdconv-soup e5-small-student --data cdconv

Most test rows of the official split share their context with training rows, which n-grams can learn by heart. Takes
kept evaluations, so nothing is judged again. Prints macro-F1 in percent, and by how much it is above that of n-grams
of all four utterances trained on as many labels; with 95 % intervals of a bootstrap over the first utterances, because
rows that share one are not independent. Once for rows whose u1 is not in the training split, once for those whose u1 is
not in the validation split either, on which checkpoints and rules were chosen.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from contradiction.data.splits import load_split
from contradiction.evaluation import results
from contradiction.io.tables import Table, interval, percent, signed, signed_interval

RESAMPLES = 2000
NGRAMS = "TF-IDF, all"
Labels = dict[int, tuple[int, int]]  # id of a row -> label and prediction


def main() -> None:
    """Parses the arguments, counts, prints two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("detectors", nargs="+", help="names of kept evaluations of 4-class")
    parser.add_argument("--data", default="cdconv")
    parser.add_argument("--results", default=results.FOLDER)
    options = parser.parse_args()

    first = {split: load_split(options.data, "4-class", split) for split in ("train", "validation", "test")}
    known = {split: {row["u1"] for row in rows} for split, rows in first.items()}
    kept = {(each["name"], each["config"]): _labels(each) for each in results.kept(options.results) if _on_test(each)}
    four, two = kept[NGRAMS, "4-class"], kept[NGRAMS, "2-class"]
    for where, seen in (("training", known["train"]), ("training or validation", known["train"] | known["validation"])):
        rows = [(row["id"], row["u1"]) for row in first["test"] if row["u1"] not in seen]
        ids, groups = [number for number, _ in rows], np.unique([u1 for _, u1 in rows], return_inverse=True)[1]
        members = [np.flatnonzero(groups == group) for group in range(groups.max() + 1)]
        drawn = np.random.default_rng(0).integers(len(members), size=(RESAMPLES, len(members)))
        draws = [np.arange(len(ids)), *(np.concatenate([members[group] for group in each]) for each in drawn)]
        lines = []
        for name in options.detectors:
            found = kept[name, "4-class"]
            merged = {number: (min(label, 1), min(said, 1)) for number, (label, said) in found.items()}
            lines.append((name, *_cells(merged, two, ids, draws, 2), *_cells(found, four, ids, draws, 4)))
        print(f"\n{len(ids)} rows of {len(members)} first utterances that are not in {where}\n")
        header = ("detector", "2-class, merged", "above n-grams", "4-class", "above n-grams")
        print(Table("", header, lines).markdown())


def _on_test(kept: dict) -> bool:
    return kept.get("kind") in results.KINDS and kept["split"] == "test"


def _labels(kept: dict) -> Labels:
    return dict(zip(kept["ids"], zip(kept["references"], kept["predictions"], strict=True), strict=True))


def _cells(
    found: Labels, ngrams: Labels, ids: Sequence[int], draws: Sequence[np.ndarray], classes: int
) -> tuple[str, str]:
    one, other = (np.array([labels[number] for number in ids]) for labels in (found, ngrams))
    scores = np.array([(_macro_f1(one[each], classes), _macro_f1(other[each], classes)) for each in draws])
    bounds = [np.quantile(each[1:], [0.025, 0.975]) for each in (scores[:, 0], scores[:, 0] - scores[:, 1])]
    return (
        f"{percent(scores[0, 0])} ({interval(bounds[0])})",
        f"{signed(scores[0, 0] - scores[0, 1])} ({signed_interval(bounds[1])})",
    )


def _macro_f1(pairs: np.ndarray, classes: int) -> float:
    """That of columns of labels and predictions; a class without either counts as 0, as in the metric."""
    counts = np.zeros((classes, classes))
    np.add.at(counts, (pairs[:, 0], pairs[:, 1]), 1)
    total = counts.sum(0) + counts.sum(1)
    return float((2 * counts.diagonal() / np.maximum(total, 1)).mean())


if __name__ == "__main__":
    main()
