"""Baselines without an encoder, fitted where there are training rows: what a text gives away, and plain overlap.

A detector that is not better than the reply alone, or than the context alone *without* the reply, has learned how the
data was made, and not how to compare the reply with the context.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Self

import numpy as np

from contradiction.conversation import ASSISTANT, is_chinese
from contradiction.data.corpora.corpus import Row, pair_texts
from contradiction.evaluation.chat_calibration import FOLDS, folds
from contradiction.evaluation.judging import two_class_verdict
from contradiction.evaluation.sets import EvalSet
from contradiction.inputs.views import CONVERSATION, VIEWS
from contradiction.labels import LABELS, is_contradiction, merge_label
from contradiction.methods.ngrams import LinearModel
from contradiction.verdict import Verdict

# A function from rows to a verdict on each.
Baseline = Callable[[Sequence[Row]], Sequence[Verdict]]
FEATURES = {"reply-only": "TF-IDF, reply only", "context-only": "TF-IDF, context only", "flatten": "TF-IDF, all"}
REPLY_ONLY = "reply-only"
WORDS = {"token_pattern": r"(?u)\b\w+\b"}  # for scikit-learn, whose default skips words of one letter
CHARACTERS = {"analyzer": "char"}  # for text without spaces


def baselines(evalset: EvalSet, task: str) -> dict[str, Baseline]:
    """The baselines of rows, by name; none of them is fitted to the rows that it judges.

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
        return _rankers([row.reply for row in train or rows])
    most = Counter(merge_label(str(row.label)) if task == "2-class" else str(row.label) for row in train or rows)
    found: dict[str, Baseline] = {f"always {most.most_common(1)[0][0]}": partial(_constant, most.most_common(1)[0][0])}
    is_pairs = bool(train) and not train[0].messages
    if is_pairs:
        pairs, labels = [row.texts() for row in train], [_label(row, task) for row in train]
        for name, reads_both in (("n-grams of the reply alone", False), ("n-grams of both texts", True)):
            model = NgramPairs(reads_both, _in_characters(train)).fit(pairs, labels)
            found[name] = partial(_by_pairs, model, evalset.as_chats)
    elif train and not evalset.as_chats:
        ids = [LABELS[task].index(_label(row, task)) for row in train]
        for view, name in FEATURES.items():
            fitted = LinearModel(VIEWS[view], class_weight="balanced").fit([row.texts() for row in train], ids)
            found[name] = partial(_by_classes, fitted, LABELS[task])
    elif evalset.as_chats and not any(row.source for row in rows):
        found |= _cross_validated(rows)
    if any(row.evidence and row.source for row in rows):
        found["fewer shared characters"] = _shared_characters
    return found


def _label(row: Row, task: str) -> str:
    return merge_label(str(row.label)) if task == "2-class" else str(row.label)


def _in_characters(rows: Sequence[Row]) -> bool:
    return sum(is_chinese(row.reply or row.hypothesis) for row in rows) * 2 > len(rows)


def _verdict(labels: Sequence[str], probabilities: Sequence[float]) -> Verdict:
    scores = dict(zip(labels, map(float, probabilities), strict=True))
    label = max(scores, key=scores.__getitem__)
    return Verdict(label, scores[label], scores, sum(scores[name] for name in labels if is_contradiction(name)))


def _constant(label: str, rows: Sequence[Row]) -> list[Verdict]:
    return [Verdict(label, 1.0, {label: 1.0}, float(is_contradiction(label)))] * len(rows)


def _by_classes(model: LinearModel, labels: Sequence[str], rows: Sequence[Row]) -> list[Verdict]:
    names = [labels[label] for label in model.classes_]
    return [_verdict(names, row) for row in model.predict_proba([row.texts() for row in rows])]


class NgramPairs:
    """Logistic regression on n-grams of both texts and on those that they share.

    Args:
        reads_premise: whether the earlier text is read; without it the model is an artefact baseline.
        characters: use n-grams of characters, for text without spaces; otherwise of words.
    """

    def __init__(self, reads_premise: bool = True, characters: bool = False) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression

        units: dict[str, Any] = CHARACTERS if characters else WORDS
        self.reads_premise = reads_premise
        self.vectorizer = TfidfVectorizer(min_df=2, sublinear_tf=True, ngram_range=(1, 3 if characters else 2), **units)
        self.model = LogisticRegression(max_iter=300)

    def fit(self, rows: Sequence[Mapping[str, str]], labels: Sequence[str]) -> Self:
        """Fits to pairs and their labels."""
        texts = [row["hypothesis"] for row in rows]
        self.vectorizer.fit(texts + [row["premise"] for row in rows] if self.reads_premise else texts)
        self.model.fit(self._features(rows), labels)
        return self

    def judge(self, rows: Sequence[Mapping[str, str]]) -> list[Verdict]:
        """The verdict on each pair."""
        return [_verdict(self.model.classes_, row) for row in self.model.predict_proba(self._features(rows))]

    def _features(self, rows: Sequence[Mapping[str, str]]) -> Any:
        from scipy.sparse import hstack

        later = self.vectorizer.transform([row["hypothesis"] for row in rows])
        if not self.reads_premise:
            return later
        earlier = self.vectorizer.transform([row["premise"] for row in rows])
        return hstack([earlier, later, earlier.multiply(later).sqrt()]).tocsr()


def _by_pairs(model: NgramPairs, as_chats: bool, rows: Sequence[Row]) -> list[Verdict]:
    """Verdicts on pairs, or on chats: the most probable contradiction of an earlier message of the speaker decides."""
    if not as_chats:
        return model.judge([row.texts() for row in rows])
    own = [[index for index, message in enumerate(row.messages) if message["role"] == ASSISTANT] for row in rows]
    pairs = [
        pair_texts(row.messages[index]["content"], row.reply)
        for row, indices in zip(rows, own, strict=True)
        for index in indices
    ]
    scores = iter([verdict.probability or 0.0 for verdict in model.judge(pairs)] if pairs else [])
    verdicts = []
    for indices in own:
        of_chat = dict(zip(indices, islice(scores, len(indices)), strict=True))
        evidence = tuple(index for index, score in of_chat.items() if score >= 0.5)
        verdicts.append(two_class_verdict(max(of_chat.values(), default=0.0), evidence=evidence))
    return verdicts


def _cross_validated(rows: Sequence[Row]) -> dict[str, Baseline]:
    """N-grams of the reply alone, fitted to four fifths of the chats for the other fifth; empty for too few chats."""
    truth = np.array([is_contradiction(str(row.label)) for row in rows])
    if min(truth.sum(), (~truth).sum()) < FOLDS:
        return {}
    replies = [{CONVERSATION[-1]: row.reply} for row in rows]
    verdicts: list[Verdict] = [two_class_verdict(0.0)] * len(rows)
    for rest, held_out in folds(truth, [repr(row.context[:2]) for row in rows]):
        model = LinearModel(VIEWS[REPLY_ONLY], class_weight="balanced")
        model.fit([replies[place] for place in rest], truth[rest].astype(int).tolist())
        for place, scores in zip(held_out, model.predict_proba([replies[place] for place in held_out]), strict=True):
            verdicts[place] = two_class_verdict(float(scores[1]))
    return {f"{FEATURES[REPLY_ONLY]}, {FOLDS}-fold cross-validation": lambda _: verdicts}


def _shared_characters(rows: Sequence[Row]) -> list[Verdict]:
    """Compares two texts without understanding them: characters and character bigrams of the reply in the message.

    The message is the contradicted one of the same context; where none is marked, nothing counts as shared.
    """
    places = {(row.source, row.context): row.evidence[0] for row in rows if row.evidence}
    verdicts = []
    for row in rows:
        place = places.get((row.source, row.context))
        shares = 0.0 if place is None else _shared(row.reply, str(row.messages[place]["content"]))
        verdicts.append(two_class_verdict(1 - shares))
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


def _rankers(texts: Sequence[str]) -> dict[str, Baseline]:
    """Orders of replies, the best first; TF-IDF is fitted to ``texts``."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    characters = sum(map(is_chinese, texts)) * 2 > len(texts)
    units: dict[str, Any] = {**CHARACTERS, "ngram_range": (1, 3)} if characters else WORDS
    vectorizer = TfidfVectorizer(sublinear_tf=True, **units).fit(texts)

    def verdict(value: float) -> Verdict:
        return Verdict("right", value, {"right": value})

    def by_cosine(first: int, rows: Sequence[Row]) -> list[Verdict]:
        chats = [" ".join(str(message["content"]) for message in row.messages[first:]) for row in rows]
        cosines = vectorizer.transform(chats).multiply(vectorizer.transform([row.reply for row in rows])).sum(axis=1)
        return [verdict(value) for value in np.asarray(cosines).ravel().tolist()]

    return {
        "any order": lambda rows: [verdict(0.0)] * len(rows),
        "the longest reply": lambda rows: [verdict(float(len(row.reply))) for row in rows],
        "TF-IDF, the whole chat": partial(by_cosine, 0),
        "TF-IDF, the last message": partial(by_cosine, -1),
    }
