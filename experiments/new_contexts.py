"""Do detectors beat n-grams where the context is new? Scores test rows whose first utterance was not trained on.

    python -m experiments.new_contexts e5-small-cdconv-soup e5-small-student --data cdconv

Most test rows of the official split share their context with training rows, which n-grams can memorise. The script
reads saved evaluations, so nothing is judged again. It prints macro-F1 in percent, and the difference from n-grams of
all four utterances fitted to as many labels, with 95 % intervals of a bootstrap over first utterances. The first table
has the rows whose u1 is not in the training split. The second has those whose u1 is not in the validation split either,
on which checkpoints and rules were chosen.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from contradiction.data.splits import load_split
from contradiction.evaluation import results
from contradiction.evaluation.baselines import FEATURES
from contradiction.io.tables import Table, signed, signed_interval, with_interval
from contradiction.paths import RESULTS
from experiments.grouped_bootstrap import group_draws

RESAMPLES = 2000
NGRAMS = FEATURES["flatten"]
Labels = dict[int, tuple[int, int]]  # id of a row -> label and prediction


def main() -> None:
    """Parses the arguments, scores, prints two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("detectors", nargs="+", help="names of saved evaluations of 4-class")
    parser.add_argument("--data", default="cdconv")
    parser.add_argument("--results", default=RESULTS)
    options = parser.parse_args()

    rows = {split: load_split(options.data, "4-class", split) for split in ("train", "validation", "test")}
    train, validation = (set(rows[split]["u1"]) for split in ("train", "validation"))
    evaluations = results.load(options.results, split="test", names={*options.detectors, NGRAMS})
    labels = {(result["name"], result["config"]): _labels(result) for result in evaluations}
    for where, known in (("training", train), ("training or validation", train | validation)):
        new = [(row["id"], row["u1"]) for row in rows["test"] if row["u1"] not in known]
        ids, contexts = zip(*new, strict=True)
        draws = [np.arange(len(ids)), *group_draws(np.unique(contexts, return_inverse=True)[1], RESAMPLES)]
        lines = []
        for name in options.detectors:
            four = labels[name, "4-class"]
            two = {number: (min(label, 1), min(prediction, 1)) for number, (label, prediction) in four.items()}
            cells = _cells(two, labels[NGRAMS, "2-class"], ids, draws, 2)
            lines.append((name, *cells, *_cells(four, labels[NGRAMS, "4-class"], ids, draws, 4)))
        print(f"\n{len(ids)} rows of {len(set(contexts))} first utterances that are not in {where}\n")
        header = ("detector", "2-class, merged", "compared with n-grams", "4-class", "compared with n-grams")
        print(Table("", header, lines).markdown())


def _labels(result: dict) -> Labels:
    return dict(zip(result["ids"], zip(result["references"], result["predictions"], strict=True), strict=True))


def _cells(
    detector: Labels, ngrams: Labels, ids: Sequence[int], draws: Sequence[np.ndarray], classes: int
) -> tuple[str, str]:
    """Macro-F1 and the difference from n-grams, each with its interval."""
    pairs, ngram_pairs = (np.array([labels[number] for number in ids]) for labels in (detector, ngrams))
    scores = np.array([(_macro_f1(pairs[draw], classes), _macro_f1(ngram_pairs[draw], classes)) for draw in draws])
    values = scores[:, 0], scores[:, 0] - scores[:, 1]
    bounds = [np.quantile(value[1:], [0.025, 0.975]) for value in values]
    return (
        with_interval(values[0][0], bounds[0]),
        f"{signed(values[1][0])} ({signed_interval(bounds[1])})",
    )


def _macro_f1(pairs: np.ndarray, classes: int) -> float:
    """Macro-F1 of columns of labels and predictions. As in the metric, a class without rows counts as 0."""
    counts = np.zeros((classes, classes))
    np.add.at(counts, (pairs[:, 0], pairs[:, 1]), 1)
    total = counts.sum(0) + counts.sum(1)
    return float((2 * counts.diagonal() / np.maximum(total, 1)).mean())


if __name__ == "__main__":
    main()
