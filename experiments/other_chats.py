"""How do detectors do on chats unlike CDConv? Scores them on the embedded sample, which shares only the form.

    python -m experiments.other_chats models/e5-small-long-replies

The sample was written for this project in crossed chats, so neither the reply nor the chat alone tells the label. The
script prints the area under the ROC curve of the probability of a contradiction (chance is 50), and macro-F1, in
percent. The 95 % bootstrap intervals are over the first messages, because rows that share one are not independent.
"""

from collections.abc import Callable
from typing import Annotated

import numpy as np
import typer
from sklearn.metrics import f1_score, roc_auc_score

from contradiction import ContradictionDetector, cdconv, cli
from contradiction.conversation import alternating
from contradiction.io.tables import Table, with_interval
from contradiction.labels import LABELS, NON_CONTRADICTION
from contradiction.paths import SAMPLE

RESAMPLES = 1000


def group_draws(groups: np.ndarray, resamples: int) -> list[np.ndarray]:
    """The row indices of each resample of whole groups; ``groups`` has the number of each row's group, from 0."""
    members = [np.flatnonzero(groups == group) for group in range(groups.max() + 1)]
    draws = np.random.default_rng(0).integers(len(members), size=(resamples, len(members)))
    return [np.concatenate([members[group] for group in draw]) for draw in draws]


def main(
    models: Annotated[list[str], typer.Argument(help="Model folders or Hub ids, with the labels of 4-class.")],
) -> None:
    """Scores detectors on the embedded sample, which shares only the form with CDConv."""
    rows = cdconv.read_rows(SAMPLE)
    chats = [alternating(row[name] for name in cdconv.UTTERANCES) for row in rows]
    numbers = {first: number for number, first in enumerate(dict.fromkeys(row["u1"] for row in rows))}
    draws = group_draws(np.array([numbers[row["u1"]] for row in rows]), RESAMPLES)
    truth = np.array([row["label"] for row in rows])
    lines = []
    for model in models:
        verdicts = ContradictionDetector.from_pretrained(model, precision="fp32").batch(chats)
        probabilities = np.array([1 - verdict.scores[NON_CONTRADICTION] for verdict in verdicts])
        predictions = np.array([LABELS["4-class"].index(verdict.label) for verdict in verdicts])
        figures = (
            resampled(roc_auc_score, truth > 0, probabilities, draws),
            resampled(_macro_f1, truth > 0, predictions > 0, draws),
            resampled(_macro_f1, truth, predictions, draws),
        )
        lines.append((model, *(with_interval(*figure) for figure in figures)))
    header = ("detector", "AUC", "macro-F1, 2-class", "macro-F1, 4-class")
    print(Table(f"{len(rows)} rows, {len(numbers)} first messages", header, lines).markdown())


def resampled(
    score: Callable[[np.ndarray, np.ndarray], float], truth: np.ndarray, values: np.ndarray, draws: list[np.ndarray]
) -> tuple[float, list[float]]:
    """A score, and its 95 % interval over resamples of the rows."""
    bounds = np.quantile([score(truth[draw], values[draw]) for draw in draws], [0.025, 0.975])
    return float(score(truth, values)), bounds.tolist()


def _macro_f1(truth: np.ndarray, predictions: np.ndarray) -> float:
    return f1_score(truth, predictions, average="macro")


if __name__ == "__main__":
    cli.main(cli.script(main))
