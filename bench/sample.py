"""How detectors do far from home: on the embedded sample, which shares nothing with CDConv but its form.

    .venv/bin/python bench/sample.py models/e5-small-cdconv-soup

It was written for this project, several replies of different labels to each context, so that a context alone tells
nothing. Prints the area under the ROC curve (50: no better than chance) of the probability of a contradiction, and the
macro-F1 of what is called, in percent, with 95 % bootstrap intervals over the contexts: rows of one context are not
independent.
"""

import argparse

import numpy as np
from sklearn.metrics import f1_score, roc_auc_score

import cdconv
from contradiction import ContradictionDetector
from contradiction.conversation import ASSISTANT, USER
from contradiction.data.sources import SAMPLE
from contradiction.io.tables import Table, interval, percent
from contradiction.labels import LABELS, NON_CONTRADICTION

RESAMPLES = 1000


def main() -> None:
    """Parses the arguments, measures, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", nargs="+", help="model folders or Hub ids, with the labels of 4-class")
    options = parser.parse_args()

    rows = cdconv.read_rows(SAMPLE)
    chats = [
        [
            {"role": role, "content": row[name]}
            for role, name in zip((USER, ASSISTANT) * 2, cdconv.UTTERANCES, strict=True)
        ]
        for row in rows
    ]
    contexts = list(dict.fromkeys((row["u1"], row["b1"]) for row in rows))
    group = np.array([contexts.index((row["u1"], row["b1"])) for row in rows])
    draws = [
        np.concatenate([np.flatnonzero(group == each) for each in drawn])
        for drawn in np.random.default_rng(0).integers(len(contexts), size=(RESAMPLES, len(contexts)))
    ]
    truth = np.array([row["label"] for row in rows])
    lines = []
    for model in options.models:
        verdicts = ContradictionDetector.from_pretrained(model).batch(chats)
        chance = np.array([1 - each.scores[NON_CONTRADICTION] for each in verdicts])
        called = np.array([LABELS["4-class"].index(each.label) for each in verdicts])
        cells = [model]
        for score, found in ((_area, chance), (_two, called), (_four, called)):
            bounds = np.quantile([score(truth[each], found[each]) for each in draws], [0.025, 0.975])
            cells.append(f"{percent(score(truth, found))} ({interval(bounds)})")
        lines.append(tuple(cells))
    header = ("detector", "area under ROC", "macro-F1, 2-class", "macro-F1, 4-class")
    print(Table(f"{len(rows)} rows, {len(contexts)} contexts", header, lines).markdown())


def _area(truth: np.ndarray, chance: np.ndarray) -> float:
    return roc_auc_score(truth > 0, chance)


def _two(truth: np.ndarray, called: np.ndarray) -> float:
    return f1_score(truth > 0, called > 0, average="macro")


def _four(truth: np.ndarray, called: np.ndarray) -> float:
    return f1_score(truth, called, average="macro")


if __name__ == "__main__":
    main()
