"""Whether the last reply of a chat contradicts its speaker, and which messages. After DECODE (Nie et al., 2021).

The structured method of the paper compares the reply with each earlier message of its speaker. The highest probability
is that of the chat, and the messages above the threshold are the evidence. The unstructured method compares the reply
with the whole chat, which gives no evidence. The columns that a model reads determine its method.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.metrics import roc_auc_score

from contradiction.conversation import ASSISTANT, USER
from contradiction.data.corpora.corpus import PAIRS, Row
from contradiction.evaluation.corpora.report import CHARACTERS, WORDS, Report, Request, score_table
from contradiction.evaluation.figures import wilson
from contradiction.inference.base import OnBatch
from contradiction.inputs.views import VIEWS
from contradiction.io.tables import Table, percent
from contradiction.labels import CONTRADICTION, is_contradiction, merge
from evaluate_metric.evaluate_metric import score_rows

if TYPE_CHECKING:
    from contradiction.methods.base import Classifier

# A pair has premise and hypothesis. Its u1 and u2 are the other speaker's messages before each, or empty. A whole chat
# with its reply has chat and reply.
PairRow = Mapping[str, str]
PairScorer = Callable[[Sequence[PairRow]], np.ndarray]

THRESHOLD = 0.5
FEWEST = 10  # the fewest chats of a bot with a rate
COLUMNS = {
    "n": "chats", "accuracy": "accuracy", "auc": "AUC", "precision": "precision", "recall": "recall",
    "evidence_precision": "evidence P", "evidence_recall": "evidence R", "evidence_f1": "evidence F1",
    "strict_accuracy": "strict",
}  # fmt: skip


def pair_row(premise: str, hypothesis: str, before_premise: str = "", before_hypothesis: str = "") -> PairRow:
    """A pair under the names of CDConv, NLI and whole chats, so that a model of any of them reads it."""
    return {
        "premise": premise, "hypothesis": hypothesis, "b1": premise, "b2": hypothesis, "u1": before_premise,
        "u2": before_hypothesis, "chat": premise, "reply": hypothesis,
    }  # fmt: skip


def model_scorer(classifier: "Classifier", on_batch: OnBatch | None = None) -> PairScorer:
    """The scorer of a trained model, of NLI or of CDConv.

    The rule of the model calibrates the probabilities. Its offsets and its threshold are not used.

    Raises:
        InputError: the model does not tell contradictions from other replies.
    """
    classifier.check_contradictions()
    task = classifier.task

    def score(rows: Sequence[PairRow]) -> np.ndarray:
        predictions = classifier.predict(rows, on_batch=on_batch)
        scores = [merge(task, classifier.scores(prediction.probabilities))[CONTRADICTION] for prediction in predictions]
        return np.array(scores, dtype=float)

    return score


class NgramPairs:
    """Logistic regression on n-grams of both texts and on those that they share: no encoder.

    Args:
        premise: whether the earlier text is read; without it the model is an artefact baseline.
        characters: use n-grams of characters, for text without spaces; otherwise of words.
    """

    def __init__(self, premise: bool = True, characters: bool = False) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression

        units: dict[str, Any] = CHARACTERS if characters else WORDS
        self.reads_premise = premise
        self.vectorizer = TfidfVectorizer(min_df=2, sublinear_tf=True, ngram_range=(1, 3 if characters else 2), **units)
        self.model = LogisticRegression(max_iter=300)

    def fit(self, rows: Sequence[PairRow], labels: Sequence[Any]) -> Self:
        """Fits to pairs and their labels."""
        texts = [row["hypothesis"] for row in rows]
        self.vectorizer.fit(texts + [row["premise"] for row in rows] if self.reads_premise else texts)
        self.model.fit(self._features(rows), labels)
        return self

    def predict(self, rows: Sequence[PairRow]) -> np.ndarray:
        """The most probable label of each pair."""
        return self.model.predict(self._features(rows))

    def __call__(self, rows: Sequence[PairRow]) -> np.ndarray:
        """The probability of the label True of a model that was fitted to the labels True and False."""
        return self.model.predict_proba(self._features(rows))[:, list(self.model.classes_).index(True)]

    def _features(self, rows: Sequence[PairRow]) -> Any:
        from scipy.sparse import hstack

        later = self.vectorizer.transform([row["hypothesis"] for row in rows])
        if not self.reads_premise:
            return later
        earlier = self.vectorizer.transform([row["premise"] for row in rows])
        return hstack([earlier, later, earlier.multiply(later).sqrt()]).tocsr()


def ngram_pairs(rows: Sequence[PairRow], labels: Sequence[Any], characters: bool) -> tuple[NgramPairs, NgramPairs]:
    """N-grams of the later text alone and of both texts, fitted to the same pairs."""
    alone = NgramPairs(premise=False, characters=characters).fit(rows, labels)
    return alone, NgramPairs(characters=characters).fit(rows, labels)


@dataclass(frozen=True)
class Judged:
    """A chat with the scores of its reply.

    Attributes:
        row: the row of the corpus.
        scores: index of each earlier message of the speaker -> the probability that the reply contradicts it.
        whole: the probability that the reply contradicts the chat, where it was not compared with single messages.
    """

    row: Row
    scores: Mapping[int, float]
    whole: float | None = None

    @property
    def probability(self) -> float:
        """That of the whole chat, or the highest score; 0 where the speaker has no earlier message."""
        return max(self.scores.values(), default=0.0) if self.whole is None else self.whole

    @property
    def is_contradiction(self) -> bool:
        """Whether the label is a contradiction."""
        return is_contradiction(str(self.row.label))

    def evidence(self, threshold: float) -> set[int]:
        """The messages above the threshold."""
        return {index for index, score in self.scores.items() if score > threshold}


Judges = Callable[[Sequence[Row]], list[Judged]]


def judge(scorer: PairScorer, rows: Sequence[Row]) -> list[Judged]:
    """Scores the reply of each chat against each earlier message of its speaker, all pairs in one call."""
    pairs = [_pair(row, index) for row in rows for index in _own(row)]
    scores = iter(scorer(pairs) if pairs else ())
    return [Judged(row, {index: float(next(scores)) for index in _own(row)}) for row in rows]


def judge_by(classifier: "Classifier", on_batch: OnBatch | None = None) -> Judges:
    """A function that judges chats with a model: whole chats if the model reads them, otherwise pairs.

    Raises:
        InputError: the model does not tell contradictions from other replies.
    """
    scorer = model_scorer(classifier, on_batch)
    if classifier.columns != VIEWS["chat"]:
        return lambda rows: judge(scorer, rows)

    def judge_whole(rows: Sequence[Row]) -> list[Judged]:
        scores = scorer([row.whole() for row in rows])
        return [Judged(row, {}, float(score)) for row, score in zip(rows, scores, strict=True)]

    return judge_whole


def _own(row: Row) -> list[int]:
    return [index for index, message in enumerate(row.messages) if message["role"] == ASSISTANT]


def _pair(row: Row, index: int) -> PairRow:
    return pair_row(
        row.messages[index]["content"], row.reply, _said_before(row, index), _said_before(row, len(row.messages))
    )


def _said_before(row: Row, index: int) -> str:
    before = row.messages[index - 1] if index else None
    return before["content"] if before and before["role"] == USER else ""


def figures(judged: Sequence[Judged], threshold: float = THRESHOLD) -> dict[str, Any]:
    """The figures of the paper. A ratio of 0 / 0 is None.

    Returns:
        ``n``; ``contradictions``; ``accuracy`` of the label with its 95 % Wilson ``interval``; ``auc`` (None where all
        labels are the same); ``precision``, ``recall`` and ``f1`` of contradictions; the same of ``evidence``, over the
        messages of the ``marked`` chats: those that contradict and whose evidence is marked; ``strict_accuracy``: label
        and evidence both exactly right, over chats whose evidence is known (None where no contradiction's is).
    """
    truth = np.array([chat.is_contradiction for chat in judged])
    scores = np.array([chat.probability for chat in judged])
    called = (scores > threshold).astype(int)
    named = [sorted(chat.evidence(threshold)) for chat in judged]
    scored = score_rows(
        [{"label": int(chat.is_contradiction), "evidence": chat.row.evidence or ()} for chat in judged],
        [{"label": int(label), "evidence": evidence} for label, evidence in zip(called, named, strict=True)],
        "decode",
    )
    if any(chat.whole is not None for chat in judged):  # a whole chat names no evidence
        scored |= dict.fromkeys(("evidence_precision", "evidence_recall", "evidence_f1", "strict_accuracy"))
    return {
        **scored,
        "contradictions": int(truth.sum()),
        "interval": list(wilson(int((called == truth).sum()), len(judged))),
        "auc": float(roc_auc_score(truth, scores)) if len(set(truth.tolist())) == 2 else None,
        "marked": sum(bool(chat.is_contradiction and chat.row.evidence) for chat in judged if chat.whole is None),
    }


def by_bot(judged: Sequence[Judged], threshold: float = THRESHOLD) -> dict[str, Any]:
    """How often people and the scorer call the replies of each bot contradictions, and how these rates correlate.

    Returns:
        ``bots``: name -> ``n``, ``people``, ``called`` (shares) and ``mean`` (of the probabilities), of bots with
        ``FEWEST`` chats; ``pearson`` and ``spearman``: correlation of the shares over the bots, None for fewer than 3.
    """
    from scipy.stats import pearsonr, spearmanr

    groups: dict[str, list[Judged]] = defaultdict(list)
    for chat in judged:
        groups[str(chat.row.extra.get("bot"))].append(chat)
    bots = {
        bot: {
            "n": len(chats),
            "people": float(np.mean([chat.is_contradiction for chat in chats])),
            "called": float(np.mean([chat.probability > threshold for chat in chats])),
            "mean": float(np.mean([chat.probability for chat in chats])),
        }
        for bot, chats in sorted(groups.items())
        if len(chats) >= FEWEST
    }
    people, called = ([bot[name] for bot in bots.values()] for name in ("people", "called"))
    enough = len(bots) > 2 and len(set(people)) > 1 and len(set(called)) > 1
    return {
        "bots": bots,
        "pearson": float(pearsonr(people, called).statistic) if enough else None,
        "spearman": float(spearmanr(people, called).statistic) if enough else None,
    }


def evaluate(request: Request) -> Report:
    """Scores a model and the n-gram baselines on the chats of a corpus.

    The baselines are fitted to the training pairs of the corpus, where it has any.
    """
    report = Report()
    pairs = next((config for config in request.corpus.configs if config.shape == PAIRS), None)
    scorers = baselines(request.train_rows(pairs.name) if pairs else [], request.in_characters)
    if request.baselines and not scorers:
        report.notes.append(f"no baselines: {request.reason_not_fitted}")
    judges: dict[str, Judges] = {name: partial(judge, scorer) for name, scorer in scorers.items()}
    if request.classifier:
        judges[request.model_name] = judge_by(request.classifier, request.on_batch)
    results, bots = {}, []
    for split, rows in request.test_rows().items():
        for name, judge_rows in judges.items():
            judged = judge_rows(rows)
            results[name, split] = report.figures[f"{name}/{split}"] = figures(judged, request.threshold)
            if any(row.extra.get("bot") for row in rows):
                counted = report.figures[f"{name}/{split}"]["by_bot"] = by_bot(judged, request.threshold)
                if counted["bots"]:
                    bots.append(bot_table(name, counted))
        if silent := sum(not _own(row) for row in rows):
            report.notes.append(f"{split}: in {silent} chats the speaker has no earlier message, and no pair is scored")
    report.tables = [score_table(f"{request.corpus.title}, %", "scorer", results, COLUMNS), *bots]
    return report


def baselines(train: Sequence[Row], characters: bool) -> dict[str, PairScorer]:
    """Scorers that need no encoder, fitted to pairs: the reply alone, and both texts; none without pairs."""
    if not train:
        return {}
    rows = [pair_row(row.premise, row.hypothesis) for row in train]
    alone, both = ngram_pairs(rows, [row.label == CONTRADICTION for row in train], characters)
    return {"n-grams of the reply alone": alone, "n-grams of both": both}


def bot_table(name: str, result: Mapping[str, Any]) -> Table:
    """A row for each bot, under a title with the correlations."""
    rows = [
        (bot, f"{scores['n']:,}", percent(scores["people"]), percent(scores["called"]), percent(scores["mean"]))
        for bot, scores in sorted(result["bots"].items(), key=lambda item: -item[1]["people"])
    ]
    correlations = ", ".join(
        f"{key} {result[key]:.2f}" if result[key] is not None else f"{key} not defined"
        for key in ("pearson", "spearman")
    )
    title = f"Contradictions by bot, %, {name}: {correlations} over {len(rows)} bots of {FEWEST} chats and more"
    return Table(title, ("bot", "chats", "people", "called", "mean probability"), rows)
