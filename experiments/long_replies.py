"""How much of a contradiction a detector finds if the replies are long.

    python experiments/long_replies.py models/e5-small-balanced

Neutral sentences are added to the first and to the judged reply of every sixth validation row, behind the reply, or
before the first reply and behind the judged one. They change no label. Shown are recall of contradictions and false
alarms at the default threshold, and the area under the ROC curve, in percent.
"""

import argparse

import numpy as np
from sklearn.metrics import roc_auc_score

import cdconv
from contradiction import ContradictionDetector
from contradiction.conversation import alternating
from contradiction.data.splits import load_split
from contradiction.io.tables import Table, percent

EVERY = 6
LENGTHS = (0, 40, 80, 160)
FILLER = (
    "说到这里，顺便提一下，今天的天气还不错，街上的人也比平时多一些，大家看起来心情都很好。希望你今天也过得顺利，有空的时候可以多聊一聊。"
    * 3
)


def main() -> None:
    """Parses the arguments, judges, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", help="a model folder or Hub id")
    parser.add_argument("--data", default="cdconv")
    options = parser.parse_args()

    detector = ContradictionDetector.from_pretrained(options.model)
    split = load_split(options.data, "2-class", "validation")
    split = split.select(range(0, len(split), EVERY))
    truth = np.array(split["label"]) > 0
    rows = [[row[name] for name in cdconv.UTTERANCES] for row in split]
    lines = []
    for before in (False, True):
        for length in LENGTHS[before:]:
            filler = FILLER[:length]
            chats = [[u1, filler + b1 if before else b1 + filler, u2, b2 + filler] for u1, b1, u2, b2 in rows]
            verdicts = detector.batch(list(map(alternating, chats)))
            called = np.array([bool(verdict.contradiction) for verdict in verdicts])
            scores = [verdict.probability or 0.0 for verdict in verdicts]
            sure = np.array([verdict.certainty == "sure" for verdict in verdicts])
            lines.append(
                (
                    f"{length}{', before the first reply' if before else ''}",
                    percent(float(called[truth].mean())),
                    percent(float(called[~truth].mean())),
                    percent(float(roc_auc_score(truth, scores))),
                    percent(float((called == truth)[sure].mean())),
                )
            )
    header = ("characters added to each reply", "recall", "false alarms", "AUC", "sure verdicts that are right")
    print(Table(f"{len(rows)} rows", header, lines).markdown())


if __name__ == "__main__":
    main()
