"""Whether a persona check reads the fact: replies held against what they contradict, and against something else.

    .venv/bin/python bench/facts.py models/e5-small-cdconv-soup --rows 400

Rows labelled *history* of a validation split, each reply with its question: against the earlier reply that it
contradicts, and against that of another such row, which it does not. A check that went by the reply alone would call as
many in both, and rank the true fact above the other one in half of the pairs.
"""

import argparse

import numpy as np
from scipy.stats import bootstrap

from contradiction import ContradictionDetector
from contradiction.data.splits import load_split
from contradiction.io.tables import interval, percent
from contradiction.labels import HISTORY


def main() -> None:
    """Parses the arguments, measures, prints three lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", help="a model folder or Hub id")
    parser.add_argument("--data", default="cdconv")
    parser.add_argument("--config", default="4-class")
    parser.add_argument("--rows", type=int, default=400, help="at most")
    options = parser.parse_args()

    detector = ContradictionDetector.from_pretrained(options.model)
    rows = load_split(options.data, options.config, "validation")
    chosen = [row for row in rows if rows.features["label"].int2str(row["label"]) == HISTORY][: options.rows]
    others = np.random.default_rng(0).permutation(len(chosen))
    true, other = [], []
    for row, place in zip(chosen, others, strict=True):
        if chosen[place]["b1"] != row["b1"]:
            true.append(detector.check([row["b1"]], row["b2"], row["u2"]))
            other.append(detector.check([chosen[place]["b1"]], row["b2"], row["u2"]))
    kept = [pair for pair in zip(true, other, strict=True) if all(each.label for each in pair)]
    print(f"{options.model}: {len(kept)} replies of the validation split of {options.config}")
    for what, values in (
        ("called, against the fact that it contradicts", [one.is_contradiction for one, _ in kept]),
        ("called, against a fact of another row", [two.is_contradiction for _, two in kept]),
        ("pairs with the true fact first", [one.probability > two.probability for one, two in kept]),
    ):
        share = np.array(values, dtype=float)
        bounds = bootstrap((share,), np.mean, method="percentile", rng=0).confidence_interval
        print(f"{what:46} {percent(share.mean())} % ({interval(bounds)})")


if __name__ == "__main__":
    main()
