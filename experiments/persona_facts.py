"""Does a persona check read the fact? Checks replies against the fact that they contradict, and against another fact.

    .venv/bin/python experiments/persona_facts.py models/e5-small-long-replies --rows 400

The rows are labelled *history* and are of a validation split. Each reply, with its question, is checked against the
earlier reply that it contradicts, and against that of another such row, which it does not contradict. A check that went
by the reply alone would call as many in both cases, and would rank the true fact first in half of the pairs.
"""

import argparse

import numpy as np
from scipy.stats import bootstrap

from contradiction import ContradictionDetector
from contradiction.data.splits import load_split
from contradiction.io.tables import interval, percent
from contradiction.labels import HISTORY


def main() -> None:
    """Parses the arguments, checks, prints three lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", help="a model folder or Hub id")
    parser.add_argument("--data", default="cdconv")
    parser.add_argument("--config", default="4-class")
    parser.add_argument("--rows", type=int, default=400, help="at most")
    options = parser.parse_args()

    detector = ContradictionDetector.from_pretrained(options.model)
    split = load_split(options.data, options.config, "validation")
    rows = [row for row in split if split.features["label"].int2str(row["label"]) == HISTORY][: options.rows]
    others = [rows[place] for place in np.random.default_rng(0).permutation(len(rows))]
    pairs = [
        tuple(detector.check([source["b1"]], row["b2"], row["u2"]) for source in (row, other))
        for row, other in zip(rows, others, strict=True)
        if other["b1"] != row["b1"]
    ]
    pairs = [(true, other) for true, other in pairs if true.label and other.label]
    print(f"{options.model}: {len(pairs)} replies of the validation split of {options.config}")
    for measure, values in (
        ("called against the fact that it contradicts", [true.contradiction for true, _ in pairs]),
        ("called against the fact of another row", [other.contradiction for _, other in pairs]),
        ("the true fact ranks first", [(true.probability or 0) > (other.probability or 0) for true, other in pairs]),
    ):
        share = np.array(values, dtype=float)
        bounds = bootstrap((share,), np.mean, method="percentile", rng=0).confidence_interval
        print(f"{measure:46} {percent(share.mean())} % ({interval(bounds)})")


if __name__ == "__main__":
    main()
