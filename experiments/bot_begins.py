"""How well is a chat judged that the bot begins, as with a greeting? The first message of the user is left out.

    python -m experiments.bot_begins models/e5-small-long-replies --split test
    python -m experiments.bot_begins models/e5-small-long-replies --message ""

The chats are those of CDConv without u1: b1 of the bot, u2 of the user, and b2, which is judged. The detector reads b1
as the answer to a message that nobody sent; ``--message`` reads it as the answer to another one, or to none.
"""

import argparse

import numpy as np
from sklearn.metrics import roc_auc_score

from contradiction import ContradictionDetector
from contradiction.conversation import alternating
from contradiction.data.splits import load_split
from contradiction.evaluation.figures import wilson
from contradiction.inputs import windows
from contradiction.inputs.views import CONVERSATION
from contradiction.io.tables import percent, with_interval
from contradiction.labels import HISTORY, NON_CONTRADICTION


def main() -> None:
    """Parses the arguments, judges, prints three lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", help="a model folder or Hub id")
    parser.add_argument("--data", default="cdconv")
    parser.add_argument("--split", default="validation")
    parser.add_argument("--rows", type=int, default=400, help="at most, of each label")
    parser.add_argument("--message", help="what b1 answers, instead of what the library reads")
    options = parser.parse_args()

    if options.message is not None:
        windows.INTRODUCTION = options.message
    detector = ContradictionDetector.from_pretrained(options.model)
    split = load_split(options.data, "4-class", options.split)
    rows = [split[int(place)] for place in np.random.default_rng(0).permutation(len(split))]
    named = {label: split.features["label"].str2int(label) for label in (HISTORY, NON_CONTRADICTION)}
    probabilities, called = {}, {}
    for label, number in named.items():
        chosen = [row for row in rows if row["label"] == number][: options.rows]
        chats = [alternating(row[column] for column in CONVERSATION)[1:] for row in chosen]
        verdicts = detector.batch(chats)
        probabilities[label] = [verdict.probability or 0.0 for verdict in verdicts]
        called[label] = sum(bool(verdict.contradiction) for verdict in verdicts)
    print(f"{options.model}, {options.split} split; b1 answers {windows.INTRODUCTION!r}")
    for label, values in probabilities.items():
        share = with_interval(called[label] / len(values), wilson(called[label], len(values)))
        print(f"{label}: {share} % of {len(values)} called a contradiction")
    scores = [score for values in probabilities.values() for score in values]
    is_history = np.repeat([1, 0], [len(values) for values in probabilities.values()])
    print(f"area under the ROC curve: {percent(roc_auc_score(is_history, scores))}")


if __name__ == "__main__":
    main()
