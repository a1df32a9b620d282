"""How much of a contradiction a detector finds if the replies are long.

    python -m experiments.long_replies models/e5-small-long-replies

Neutral sentences are added to the end of both replies of every sixth validation row. They change no label. Shown are
recall of contradictions and false alarms at the default threshold, and the area under the ROC curve, in percent.
"""

from typing import Annotated

import numpy as np
import typer
from sklearn.metrics import roc_auc_score

from contradiction import ContradictionDetector, cdconv, cli
from contradiction.commands.common import DATA, DataOption
from contradiction.conversation import alternating
from contradiction.data.splits import load_split
from contradiction.io.tables import Table, percent

EVERY = 6
LENGTHS = (0, 40, 80)
FILLER = (
    "说到这里，顺便提一下，今天的天气还不错，街上的人也比平时多一些，大家看起来心情都很好。希望你今天也过得顺利，有空的时候可以多聊一聊。"
    * 3
)


def main(
    model: Annotated[str, typer.Argument(help="A model folder or Hub id.")],
    data: DataOption = DATA,
) -> None:
    """Measures how well contradictions are found if neutral sentences are added to the replies."""
    detector = ContradictionDetector.from_pretrained(model, precision="fp32")
    split = load_split(data, "2-class", "validation")
    split = split.select(range(0, len(split), EVERY))
    truth = np.array(split["label"]) > 0
    rows = [[row[name] for name in cdconv.UTTERANCES] for row in split]
    lines = []
    for length in LENGTHS:
        chats = [alternating((u1, longer(b1, length), u2, longer(b2, length))) for u1, b1, u2, b2 in rows]
        verdicts = detector.batch(chats)
        called = np.array([bool(verdict.contradiction) for verdict in verdicts])
        auc = roc_auc_score(truth, [verdict.probability or 0.0 for verdict in verdicts])
        shares = (called[truth].mean(), called[~truth].mean(), auc)
        lines.append((str(length), *(percent(float(share)) for share in shares)))
    header = ("characters added to each reply", "recall", "false alarms", "AUC")
    print(f"{len(rows)} rows")
    print(Table("", header, lines).markdown())


def longer(reply: str, length: int) -> str:
    """A reply with so many characters of neutral sentences."""
    return f"{reply}{'' if reply[-1] in '。！？' else '。'}{FILLER[:length]}" if length else reply


if __name__ == "__main__":
    cli.main(cli.script(main))
