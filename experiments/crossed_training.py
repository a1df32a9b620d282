"""Does an encoder of this size learn to compare? Trains a detector on crossed quadruples and reports pairs in order.

    python experiments/crossed_training.py models/e5-small-cdconv-soup --epochs 4 --train s1 s2 s3 e1 e2 e4

Each step reads whole quadruples, so that every batch holds each reply and each chat with both labels. The loss is
binary cross-entropy plus a logistic ranking loss over replies that share a chat and over chats that share a reply.
Speaker words stand before each message. With bf16 instructions, 405 short quadruples take about two minutes an epoch on
one idle CPU core.
"""

import argparse
import random

import numpy as np
import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer, get_linear_schedule_with_warmup

from contradiction.data.corpora.crossed import FOLDER, Quadruple, read_batch
from contradiction.labels import NON_CONTRADICTION, is_contradiction

SPEAKERS = {"user": "用户：", "assistant": "机器人："}
PER_STEP = 8
MAX_LENGTH = 320
Row = tuple[str, str, bool]


def rows_of(quadruple: Quadruple, separator: str) -> list[Row]:
    """The four combinations as (chat, reply, contradicts), the consistent reply of each chat first."""
    return [
        (
            separator.join(SPEAKERS[message["role"]] + message["content"] for message in row.messages),
            SPEAKERS["assistant"] + row.reply,
            row.label != NON_CONTRADICTION,
        )
        for row in quadruple.judged()
    ]


def loss_of(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy, and a ranking loss over the four pairs of a quadruple that share a chat or a reply.

    Args:
        scores: log-odds of a contradiction, shape (4 * quadruples,), in the order of :func:`rows_of`.
        labels: 0 and 1, same shape.
    """
    aa, ab, bb, ba = scores.view(-1, 4).T
    margins = torch.stack([ab - aa, ba - bb, ba - aa, ab - bb])  # each contradiction above each consistent row
    ranking = nn.functional.softplus(-margins).sum(0).mean()
    return nn.functional.binary_cross_entropy_with_logits(scores, labels) + 0.5 * ranking


class Scorer:
    """A classification checkpoint as a function from rows to log-odds of a contradiction."""

    def __init__(self, model: str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(model, truncation_side="left")
        self.model = AutoModelForSequenceClassification.from_pretrained(
            model, dtype=torch.float32, attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.05
        )
        names = self.model.config.id2label
        self.contradictions = [index for index, name in names.items() if is_contradiction(name)]
        self.others = [index for index in names if index not in self.contradictions]

    def __call__(self, rows: list[Row]) -> torch.Tensor:
        """The scores of rows, shape (rows,)."""
        chats, replies, _ = zip(*rows, strict=True)
        batch = self.tokenizer(
            list(chats), list(replies), truncation="only_first", max_length=MAX_LENGTH, padding=True,
            return_tensors="pt",
        )  # fmt: skip
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = self.model(**batch).logits
        logits = logits.float()
        return logits[:, self.contradictions].logsumexp(1) - logits[:, self.others].logsumexp(1)


def in_order(scorer: Scorer, quadruples: list[Quadruple]) -> tuple[float, float]:
    """Share of chats whose contradicting reply scores higher, and half the width of its 95 % interval.

    The interval is that of a mean over quadruples, because the two chats of one are not independent.
    """
    scorer.model.eval()
    shares = []
    with torch.no_grad():
        for start in range(0, len(quadruples), PER_STEP):
            rows = [row for item in quadruples[start : start + PER_STEP] for row in rows_of(item, separator(scorer))]
            for aa, ab, bb, ba in scorer(rows).view(-1, 4).tolist():
                shares.append(((ab > aa) + (ba > bb)) / 2)
    scorer.model.train()
    return float(np.mean(shares)), float(1.96 * np.std(shares) / np.sqrt(len(shares)))


def separator(scorer: Scorer) -> str:
    """What stands between two messages."""
    return str(scorer.tokenizer.sep_token)


def main() -> None:
    """Trains, and prints a line an epoch."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--train", nargs="+", default=["s1", "s2", "s3", "e1", "e2", "e4"], metavar="BATCH")
    parser.add_argument("--validation", nargs="+", default=["c1", "e3", "s4"], metavar="BATCH")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    batches = {name: read_batch(FOLDER / f"{name}.jsonl") for name in (*args.train, *args.validation)}
    quadruples = [item for name in args.train for item in batches[name] if isinstance(item, Quadruple)]
    scorer = Scorer(args.model)
    steps = args.epochs * -(-len(quadruples) // PER_STEP)
    head = list(scorer.model.classifier.parameters())
    encoder = [weight for name, weight in scorer.model.named_parameters() if not name.startswith("classifier")]
    optimizer = torch.optim.AdamW(
        [{"params": encoder}, {"params": head, "lr": 5 * args.learning_rate}], lr=args.learning_rate
    )
    schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    for epoch in range(args.epochs + 1):
        shares = {"train": in_order(scorer, quadruples[:100])}
        shares |= {name: in_order(scorer, batches[name]) for name in args.validation}
        figures = ", ".join(f"{name} {100 * share:.1f} ± {100 * half:.1f}" for name, (share, half) in shares.items())
        print(f"{len(quadruples)} quadruples, epoch {epoch}, pairs in order: {figures}", flush=True)
        random.shuffle(quadruples)
        for start in range(0, len(quadruples) if epoch < args.epochs else 0, PER_STEP):
            rows = [row for item in quadruples[start : start + PER_STEP] for row in rows_of(item, separator(scorer))]
            loss_of(scorer(rows), torch.tensor([float(row[2]) for row in rows])).backward()
            nn.utils.clip_grad_norm_(scorer.model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main()
