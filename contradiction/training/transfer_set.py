"""A transfer set: further conversations for a student to hear its teachers on, put together from the training rows."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from datasets import Dataset
    from scipy.sparse import csr_matrix

CHUNK = 256  # contexts


def transfer_rows(rows: "Dataset", times: int) -> "Dataset":
    """Conversations that nobody has labelled: the first turn of a training row, and a second one from elsewhere.

    Of a training row, a teacher that was trained on it knows the label by heart, and says hardly more than that. What
    it has learnt shows on rows that it has not read (Turc et al., 2019, *Well-read students learn better*, section 3,
    who take unlabelled text for that). So that the turns speak of the same things, as those of the data set do,
    where u2 takes up u1 or b1 (section 4.2), a context is continued by the turns (u2, b2) that are nearest to it: by
    the cosine of the TF-IDF of u1 and b1, and of u2, over characters and pairs of them. A continuation
    is one of the same bot, and its u2 none that ``rows`` have for the same u1.

    Args:
        rows: of the training split; those made hold no text of others.
        times: how many to make for each of them.

    Returns:
        ``times`` x ``len(rows)`` rows of the same columns, fewer where a bot has too few turns: ``id`` and the
        other columns are those of the row that the context is from, and ``label`` is None. No two of one
        bot are equal in text.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    columns = {name: list(rows[name]) for name in rows.column_names}
    contexts = _members(zip(columns["u1"], columns["b1"], columns["bot"], strict=True))
    turns = _members(zip(columns["u2"], columns["b2"], columns["bot"], strict=True))
    asked: dict[str, set[str]] = {}
    for u1, u2 in zip(columns["u1"], columns["u2"], strict=True):
        asked.setdefault(u1, set()).add(u2)
    words = TfidfVectorizer(analyzer="char", ngram_range=(1, 2), sublinear_tf=True)
    questions = words.fit_transform(columns["u2"])[[members[0] for members in turns.values()]]
    said = words.transform([columns["u1"][i] + columns["b1"][i] for i, *_ in contexts.values()])
    keys = list(turns)
    chosen: list[tuple[int, int]] = []
    similarities = _similarities(said, questions)
    for (u1, _, bot), members, similarity in zip(contexts, contexts.values(), similarities, strict=True):
        near = np.argsort(-similarity, kind="stable")
        fitting = (turn for turn in near if keys[turn][2] == bot and keys[turn][0] not in asked[u1])
        found = [turns[keys[turn]][0] for turn, _ in zip(fitting, range(times * len(members)), strict=False)]
        chosen += [(members[number // times], turn) for number, turn in enumerate(found)]
    made = rows.select([context for context, _ in chosen]).to_dict()
    other = rows.select([turn for _, turn in chosen])
    made |= {"u2": list(other["u2"]), "b2": list(other["b2"]), "label": [None] * len(chosen)}
    return type(rows).from_dict(made, features=rows.features)


def _similarities(said: "csr_matrix", questions: "csr_matrix") -> Iterator[np.ndarray]:
    """Of each context to all questions; a chunk of them at a time, since hardly a pair shares no character."""
    for first in range(0, said.shape[0], CHUNK):
        yield from (said[first : first + CHUNK] @ questions.T).toarray()


def _members(keys: Iterable[tuple[str, str, int]]) -> dict[tuple[str, str, int], list[int]]:
    """The numbers of the rows of each key, in their order."""
    found: dict[tuple[str, str, int], list[int]] = {}
    for number, key in enumerate(keys):
        found.setdefault(key, []).append(number)
    return found
