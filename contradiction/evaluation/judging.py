"""Verdicts on the rows of an evaluation: those of a detector, whatever it reads, and those of baselines.

The baselines have no encoder. A detector that is not better than the reply alone, or than the context alone *without*
the reply, has learned how the data was made, and not how to compare the reply with the context.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from contradiction.conversation import ASSISTANT, USER, is_chinese, read_turns
from contradiction.data.corpora import Row, pair_texts
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation.chat_calibration import FOLDS, folds
from contradiction.evaluation.sets import EvalSet
from contradiction.inference.base import OnBatch
from contradiction.inputs.views import CONVERSATION, VIEWS
from contradiction.labels import (
    CONTRADICTION,
    CONTRADICTIONS,
    LABELS,
    NON_CONTRADICTION,
    is_contradiction,
    merge,
    merge_label,
)
from contradiction.methods.base import Classifier, Prediction
from contradiction.methods.ngrams import LinearModel
from contradiction.settings import Settings
from contradiction.verdict import NO_ANSWER, Verdict

BATCH_SIZE = 64
FEATURES = {"reply-only": "TF-IDF, reply only", "context-only": "TF-IDF, context only", "flatten": "TF-IDF, all"}
REPLY_ONLY = "reply-only"


def task_for(evalset: EvalSet, task: str, name: str) -> str:
    """The task in which rows and a model with the labels of ``task`` are compared.

    It is that of both if they have the same labels, and otherwise contradiction or not.

    Raises:
        InputError: the labels cannot be compared.
    """
    if task == evalset.task:
        return task
    # A data repo of CDConv has a config with two labels, to name.
    comparable = task in CONTRADICTIONS and (evalset.task in CONTRADICTIONS or evalset.task == "response")
    if comparable and (evalset.as_chats or evalset.task in ("2-class", "nli")):
        return evalset.task if evalset.task == "response" else "2-class"
    raise InputError(
        f"{name} predicts {', '.join(LABELS.get(task, (task,)))}; config {evalset.config!r} has other labels: "
        f"{', '.join(LABELS[evalset.task])}"
    )


def in_task(task: str, label: str | None) -> str:
    """A label, or what it is merged to if the task is contradiction or not."""
    label = str(label)
    return merge_label(label) if task == "2-class" else label


def judge(
    detector: ContradictionDetector, evalset: EvalSet, task: str, on_batch: OnBatch | None = None
) -> tuple[list[Verdict], list[str] | None]:
    """The verdict on each row, and the most probable labels without the decision rule where these are known.

    A chat is judged as by ``detector.batch``, and rows of two turns or two texts by ``detector.classify``; both decide
    alike. A model of premise and hypothesis compares the reply with earlier messages. A model of whole chats reads each
    chat as one text.

    Raises:
        InputError: the model does not read such rows, or has settings, which hold for verdicts on chats alone.
    """
    columns, rows = tuple(detector.columns), evalset.rows
    as_verdicts = evalset.as_chats and columns not in (VIEWS["nli"], VIEWS["chat"])
    if not as_verdicts and detector.settings != Settings(max_turns=detector.settings.max_turns):
        raise InputError(f"{evalset.config}: settings are for verdicts on chats; use the defaults")
    if evalset.as_chats and columns == VIEWS["nli"]:
        scores = contradiction_scores(detector.classifier, _earlier_pairs(rows), on_batch)
        return _by_earlier_messages(rows, scores, detector.classifier.rule.threshold), None
    if as_verdicts:
        return detector.judge_last_replies(
            [read_turns(row.chat()) for row in rows], batch_size=BATCH_SIZE, on_batch=on_batch
        ), None
    texts = [row.whole() if evalset.as_chats else row.texts() for row in rows]
    classified = detector.classify(texts, batch_size=BATCH_SIZE, on_batch=on_batch)
    merged = task != detector.task and task == "2-class"
    return [_of_classified(row, detector.task, merged) for row in classified], [row.argmax for row in classified]


def _of_classified(row: Prediction, task: str, merged: bool) -> Verdict:
    label = merge_label(row.label) if merged else row.label
    scores = merge(task, row.scores) if merged else row.scores
    probability = merge(task, row.scores)[CONTRADICTION] if task in CONTRADICTIONS else None
    return Verdict(label, scores[label], scores, probability, checked=row.truncation is None, reason=row.truncation)


def was_judged(verdict: Verdict) -> bool:
    """Whether a verdict counts. That of a language model without a usable answer does, as no contradiction.

    Otherwise a judge could leave out hard chats.
    """
    return verdict.label is not None or verdict.reason == NO_ANSWER


def contradiction_scores(
    classifier: Classifier, pairs: Sequence[dict[str, str]], on_batch: OnBatch | None = None
) -> list[float]:
    """The calibrated probability that each pair of texts, see ``pair_texts``, is a contradiction.

    Raises:
        InputError: the model does not tell contradictions from other replies.
    """
    classifier.check_contradictions()
    predictions = classifier.predict(pairs, on_batch=on_batch) if pairs else []
    return [merge(classifier.task, prediction.scores)[CONTRADICTION] for prediction in predictions]


def _own_messages(row: Row) -> list[int]:
    return [index for index, message in enumerate(row.messages) if message["role"] == ASSISTANT]


def _earlier_pairs(rows: Sequence[Row]) -> list[dict[str, str]]:
    """The reply of each row with each earlier message of its speaker (structured; DECODE, Nie et al., 2021)."""
    return [_pair(row, index) for row in rows for index in _own_messages(row)]


def _by_earlier_messages(rows: Sequence[Row], scores: Sequence[float], threshold: float) -> list[Verdict]:
    """Verdicts by the probabilities of :func:`_earlier_pairs`.

    The highest probability is that of the reply, and the messages from the threshold on are its evidence. A reply whose
    speaker has said nothing before contradicts nothing.
    """
    each, verdicts = iter(scores), []
    for indices in map(_own_messages, rows):
        of_chat = dict(zip(indices, islice(each, len(indices)), strict=True))
        evidence = tuple(index for index, score in of_chat.items() if score >= threshold)
        verdicts.append(_two_class(max(of_chat.values(), default=0.0), threshold, evidence))
    return verdicts


def _pair(row: Row, index: int) -> dict[str, str]:
    def said_before(place: int) -> str:
        before = row.messages[place - 1] if place else None
        return before["content"] if before and before["role"] == USER else ""

    return pair_texts(row.messages[index]["content"], row.reply, said_before(index), said_before(len(row.messages)))


def _two_class(probability: float, threshold: float = 0.5, evidence: tuple[int, ...] = ()) -> Verdict:
    """The verdict on a reply with this probability of a contradiction."""
    scores = {NON_CONTRADICTION: 1 - probability, CONTRADICTION: probability}
    label = CONTRADICTION if probability >= threshold else NON_CONTRADICTION
    return Verdict(label, scores[label], scores, probability, evidence)


def baselines(evalset: EvalSet, task: str) -> dict[str, Sequence[Verdict]]:
    """The verdicts of baselines on each row, by the name of the baseline; none is fitted to the rows that it judges.

    - Every task: the most frequent label.
    - Conversations of CDConv: class-balanced logistic regression on TF-IDF of character n-grams, see ``FEATURES``.
    - Pairs: logistic regression on n-grams of the hypothesis alone, and of both texts. Chats of a corpus with training
      pairs: the same, on the reply and each earlier message of its speaker.
    - Labelled chats: TF-IDF of the reply alone, fitted by cross-validation.
    - Choice among replies: any order, the longest reply, and TF-IDF of the reply and the chat or its last message.
    - Replies with marked evidence: fewer characters shared with the contradicted message (which it is told).
    """
    rows, train = evalset.rows, evalset.train()
    if evalset.task == "response":
        return _rankings(rows, [row.reply for row in train or rows])
    [(most, _)] = Counter(in_task(task, row.label) for row in train or rows).most_common(1)
    found: dict[str, Sequence[Verdict]] = {f"always {most}": [_verdict([most], [1.0])] * len(rows)}
    known, labels = [row.texts() for row in train], [in_task(task, row.label) for row in train]
    if train and not train[0].messages:
        judged = _earlier_pairs(rows) if evalset.as_chats else [row.texts() for row in rows]
        for name, reads_both in (("n-grams of the reply alone", False), ("n-grams of both texts", True)):
            found[name] = verdicts = _by_ngrams(known, labels, judged, reads_both=reads_both)
            if evalset.as_chats:
                found[name] = _by_earlier_messages(rows, [verdict.probability or 0.0 for verdict in verdicts], 0.5)
    elif train and not evalset.as_chats:
        ids = [LABELS[task].index(label) for label in labels]
        for view, name in FEATURES.items():
            model = LinearModel(VIEWS[view], class_weight="balanced").fit(known, ids)
            names = [LABELS[task][label] for label in model.classes_]
            found[name] = [_verdict(names, row) for row in model.predict_proba([row.texts() for row in rows])]
    elif evalset.as_chats and not any(row.source for row in rows):
        found |= _cross_validated(rows)
    if any(row.evidence and row.source for row in rows):
        found["fewer shared characters"] = _shared_characters(rows)
    return found


def _are_chinese(texts: Sequence[str]) -> bool:
    return sum(map(is_chinese, texts)) * 2 > len(texts)


def _verdict(labels: Sequence[str], probabilities: Sequence[float]) -> Verdict:
    scores = dict(zip(labels, map(float, probabilities), strict=True))
    label = max(scores, key=scores.__getitem__)
    return Verdict(label, scores[label], scores, sum(scores[name] for name in labels if is_contradiction(name)))


def _vectorizer(characters: bool, longest: int, **options: Any) -> Any:
    """TF-IDF of n-grams, of characters for text without spaces and otherwise of words, also those of one letter."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    units: dict[str, Any] = {"analyzer": "char"} if characters else {"token_pattern": r"(?u)\b\w+\b"}
    return TfidfVectorizer(sublinear_tf=True, ngram_range=(1, longest), **units, **options)


def _by_ngrams(
    train: Sequence[Mapping[str, str]], labels: Sequence[str], judged: Sequence[Mapping[str, str]], *, reads_both: bool
) -> list[Verdict]:
    """Logistic regression on n-grams of the hypothesis, and with ``reads_both`` on those of the premise and of both."""
    from scipy.sparse import hstack
    from sklearn.linear_model import LogisticRegression

    texts = [row["hypothesis"] for row in train]
    characters = _are_chinese(texts)
    vectorizer = _vectorizer(characters, 3 if characters else 2, min_df=2)
    vectorizer.fit(texts + [row["premise"] for row in train] if reads_both else texts)

    def features(rows: Sequence[Mapping[str, str]]) -> Any:
        later = vectorizer.transform([row["hypothesis"] for row in rows])
        if not reads_both:
            return later
        earlier = vectorizer.transform([row["premise"] for row in rows])
        return hstack([earlier, later, earlier.multiply(later).sqrt()]).tocsr()

    if not judged:
        return []
    model = LogisticRegression(max_iter=300).fit(features(train), labels)
    return [_verdict(model.classes_, row) for row in model.predict_proba(features(judged))]


def _cross_validated(rows: Sequence[Row]) -> dict[str, Sequence[Verdict]]:
    """N-grams of the reply alone, fitted to four fifths of the chats for the other fifth; empty for too few chats."""
    truth = np.array([is_contradiction(str(row.label)) for row in rows])
    if min(truth.sum(), (~truth).sum()) < FOLDS:
        return {}
    replies = [{CONVERSATION[-1]: row.reply} for row in rows]
    verdicts: list[Verdict] = [_two_class(0.0)] * len(rows)
    for rest, held_out in folds(truth, [repr(row.context[:2]) for row in rows]):
        model = LinearModel(VIEWS[REPLY_ONLY], class_weight="balanced")
        model.fit([replies[place] for place in rest], truth[rest].astype(int).tolist())
        for place, scores in zip(held_out, model.predict_proba([replies[place] for place in held_out]), strict=True):
            verdicts[place] = _two_class(float(scores[1]))
    return {f"{FEATURES[REPLY_ONLY]}, {FOLDS}-fold cross-validation": verdicts}


def _shared_characters(rows: Sequence[Row]) -> list[Verdict]:
    """Compares two texts without understanding them: characters and character bigrams of the reply in the message.

    The message is the contradicted one of the same context; where none is marked, nothing counts as shared.
    """
    places = {(row.source, row.context): row.evidence[0] for row in rows if row.evidence}
    verdicts = []
    for row in rows:
        place = places.get((row.source, row.context))
        shares = 0.0 if place is None else _shared(row.reply, str(row.messages[place]["content"]))
        verdicts.append(_two_class(1 - shares))
    return verdicts


def _shared(reply: str, message: str) -> float:
    shares = []
    for length in (1, 2):
        grams, message_grams = (
            {text[start : start + length] for start in range(len(text) - length + 1)}
            for text in ("".join(filter(str.isalnum, text)) for text in (reply, message))
        )
        shares.append(len(grams & message_grams) / max(1, len(grams)))
    return sum(shares) / 2


def _rankings(rows: Sequence[Row], texts: Sequence[str]) -> dict[str, Sequence[Verdict]]:
    """Orders of replies, the best first; TF-IDF is fitted to ``texts``."""
    characters = _are_chinese(texts)
    vectorizer = _vectorizer(characters, 3 if characters else 1).fit(texts)

    def cosines(first: int) -> list[float]:
        chats = [" ".join(str(message["content"]) for message in row.messages[first:]) for row in rows]
        products = vectorizer.transform(chats).multiply(vectorizer.transform([row.reply for row in rows]))
        return np.asarray(products.sum(axis=1)).ravel().tolist()

    scores = {
        "any order": [0.0] * len(rows),
        "the longest reply": [float(len(row.reply)) for row in rows],
        "TF-IDF, the whole chat": cosines(0),
        "TF-IDF, the last message": cosines(-1),
    }
    return {name: [Verdict("right", value, {"right": value}) for value in own] for name, own in scores.items()}
