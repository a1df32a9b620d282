"""Response selection: which of several replies follows from the chat? MuTual (Cui et al., 2020)."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from contradiction.conversation import USER
from contradiction.data.corpora.corpus import Row
from contradiction.data.corpora.mutual import RIGHT
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation.corpora import structured
from contradiction.evaluation.corpora.report import CHARACTERS, WORDS, Report, Request, score_table
from contradiction.evaluation.figures import wilson
from contradiction.inference.base import OnBatch
from contradiction.inputs.views import VIEWS
from evaluate_metric.evaluate_metric import score_rows

if TYPE_CHECKING:
    from contradiction.methods.base import Classifier

Items = Sequence[Sequence[Row]]
# Gives each reply of each item a score; the highest score of an item is chosen. None if no reply can be scored.
Ranker = Callable[[Items], list[list[float]] | None]
# The messages of the chat that a model of responses reads: whether it needs more than the last one, or any.
CONTEXTS = {"the whole chat": slice(None), "the last message": slice(-1, None), "no chat": slice(0, 0)}
COLUMNS = {"n": "items", "r1": "R@1", "r2": "R@2", "mrr": "MRR", "interval": "R@1, 95 %"}


def evaluate(request: Request) -> Report:
    """Scores chance, the length of a reply, TF-IDF of chat and reply, and a model.

    A model of responses ranks by the probability that a reply is right: after the whole chat, after its last message
    alone, and without any message. Another model ranks by the lowest probability of a contradiction: the highest over
    the pairs of the reply and an earlier message of its speaker, or that over the whole chat. If it judges replies, it
    also ranks by ``rerank``.
    """
    report, results = Report(), {}
    tests = request.test_rows()
    rankers = {**_baseline_rankers(request, tests, report), **_model_rankers(request, report)}
    for split, rows in tests.items():
        items = by_item(rows)
        for name, ranker in rankers.items():
            if ranked := ranker(items):
                results[name, split] = report.figures[f"{name}/{split}"] = figures(items, ranked)
    title = f"{request.corpus.title}, {request.chosen.name}, %"
    report.tables = [score_table(title, "order", results, COLUMNS)]
    return report


def _baseline_rankers(request: Request, tests: Mapping[str, Sequence[Row]], report: Report) -> dict[str, Ranker]:
    if not request.baselines:
        return {}
    texts = [row.reply for row in request.train_rows()]
    if not texts:
        report.notes.append("TF-IDF counts words in the scored replies, because there is no other training split")
        texts = [row.reply for rows in tests.values() for row in rows]
    return {
        "any order": lambda items: [[0.0] * len(item) for item in items],
        "the longest reply": lambda items: [[len(row.reply) for row in item] for item in items],
        **tfidf_rankers(texts, request.in_characters),
    }


def _model_rankers(request: Request, report: Report) -> dict[str, Ranker]:
    if request.classifier is None:
        return {}
    name, classifier = request.model_name, request.classifier
    if classifier.task == "response":
        return {
            f"{name}, {part}": partial(_by_response, classifier, request.on_batch, shown)
            for part, shown in CONTEXTS.items()
        }
    judge = structured.judge_by(classifier, request.on_batch)

    def by_contradiction(items: Items) -> list[list[float]]:
        judged = iter(judge([row for item in items for row in item]))
        return [[-next(judged).probability for _ in item] for item in items]

    source = "the whole chat" if classifier.columns == VIEWS["chat"] else "pairs"
    rankers: dict[str, Ranker] = {f"fewest contradictions in {source}, {name}": by_contradiction}
    detector = ContradictionDetector(request.classifier)
    try:
        detector.check_judges_replies()
    except InputError as error:
        report.notes.append(f"rerank is not run: {error}")
        return rankers

    def by_rerank(items: Items) -> list[list[float]] | None:
        ranked = [_rerank(detector, item) for item in items]
        reasons, replies = [reason for _, item in ranked for reason in item], sum(map(len, items))
        if len(reasons) == replies:
            report.notes.append(f"rerank is left out, because it could judge none of {replies:,} replies: {reasons[0]}")
            return None
        if reasons:
            report.notes.append(f"rerank could not judge {len(reasons):,} of {replies:,} replies: {reasons[0]}")
        return [scores for scores, _ in ranked]

    return {**rankers, f"rerank, {name}": by_rerank}


def _by_response(classifier: "Classifier", on_batch: OnBatch | None, shown: slice, items: Items) -> list[list[float]]:
    """The probability that each reply is right, by a model that reads some of the messages before it."""
    rows = [row.whole(shown) for item in items for row in item]
    predictions = iter(classifier.predict(rows, on_batch=on_batch))
    return [[next(predictions).probabilities[RIGHT] for _ in item] for item in items]


def _rerank(detector: ContradictionDetector, item: Sequence[Row]) -> tuple[list[float], list[str | None]]:
    """A score for each reply by the order of ``rerank``, and why some could not be judged; those share the last place.

    Messages of the replier at the end of the chat are left out, because ``rerank`` needs the user's message last.
    """
    messages = list(item[0].messages)
    while messages and messages[-1]["role"] != USER:
        messages.pop()
    scores, reasons = [0.0] * len(item), []
    for place, candidate in enumerate(detector.rerank(messages, [row.reply for row in item])):
        if candidate.probability is None:
            place = len(item)
            reasons.append(candidate.verdict.reason)
        scores[candidate.index] = -float(place)
    return scores, reasons


def by_item(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each item."""
    items: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        items[str(row.source)].append(row)
    return list(items.values())


def figures(items: Items, scores: Sequence[Sequence[float]]) -> dict[str, Any]:
    """``n`` items; recall at 1 and 2, ``r1`` with its 95 % Wilson ``interval``; mean reciprocal rank ``mrr``.

    Among replies with equal scores, the right reply gets the mean of their ranks, as if they were shuffled.
    """
    rights = [next(index for index, row in enumerate(item) if row.label == RIGHT) for item in items]
    result = score_rows(rights, [list(map(float, item_scores)) for item_scores in scores], "selection")
    return {**result, "interval": list(wilson(round(result["r1"] * len(items)), len(items)))}


def tfidf_rankers(texts: Sequence[str], characters: bool) -> dict[str, Ranker]:
    """The cosine of TF-IDF vectors of a reply and the whole chat, or its last message; fitted to ``texts``."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    units: dict[str, Any] = {**CHARACTERS, "ngram_range": (1, 3)} if characters else WORDS
    vectorizer = TfidfVectorizer(sublinear_tf=True, **units).fit(texts)

    def cosines(item: Sequence[Row], first: int) -> list[float]:
        chat = vectorizer.transform([" ".join(message["content"] for message in item[0].messages[first:])])
        return (vectorizer.transform([row.reply for row in item]) @ chat.T).toarray().ravel().tolist()

    return {
        "TF-IDF, the whole chat": lambda items: [cosines(item, 0) for item in items],
        "TF-IDF, the last message": lambda items: [cosines(item, -1) for item in items],
    }
