"""What do the reply alone and the chat alone reveal about the labels of the embedded sample?

    python -m experiments.sample_null

The script prints the area under the ROC curve in percent: of n-grams in five-fold cross-validation, which keeps the
rows of one u1 in one fold, as the mean and the range over random divisions into folds; and of the length of the reply.
"""

from sklearn.metrics import roc_auc_score

from contradiction import cli
from contradiction.cdconv import NON_CONTRADICTION, read_rows
from contradiction.io.tables import Table, percent
from contradiction.paths import SAMPLE
from experiments.crossed_gates import ngram_auc

DIVISIONS = 5


def main() -> None:
    """Prints what the reply alone and the chat alone reveal about the labels of the embedded sample."""
    rows = read_rows(SAMPLE)
    contradicts = [row["label"] != NON_CONTRADICTION for row in rows]
    sides = {
        "the reply, n-grams": [row["b2"] for row in rows],
        "the chat without the reply, n-grams": [" ".join(row[name] for name in ("u1", "b1", "u2")) for row in rows],
    }
    lines = []
    for name, texts in sides.items():
        aucs = [ngram_auc(texts, contradicts, [row["u1"] for row in rows], seed) for seed in range(DIVISIONS)]
        lines.append((name, f"{percent(sum(aucs) / DIVISIONS)} ({percent(min(aucs))}\u2013{percent(max(aucs))})"))
    lines.append(("the length of the reply", percent(roc_auc_score(contradicts, [len(row["b2"]) for row in rows]))))
    print(Table(f"The sample, {len(rows)} rows", ("it reads", "AUC, %"), lines).markdown())


if __name__ == "__main__":
    cli.main(cli.script(main))
