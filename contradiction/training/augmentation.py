"""The rows that a recipe trains on: a fraction of the training split, and further rows that are made from it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from datasets import concatenate_datasets

from contradiction.data.splits import load_split, of_bot
from contradiction.errors import InputError
from contradiction.inputs.views import CONVERSATION
from contradiction.labels import CONTRADICTION, HISTORY, NON_CONTRADICTION
from contradiction.training.crossed_rows import crossed_rows
from contradiction.training.losses import GROUP, UNLABELLED
from contradiction.training.recipe import Recipe

if TYPE_CHECKING:
    from datasets import Dataset
    from scipy.sparse import csr_matrix


@dataclass(frozen=True)
class TrainingRows:
    """What one pass over the training split reads.

    Attributes:
        rows: all of it.
        taught: so many of these, the first, teachers are asked of. The label of the others follows from how they were
            made, whatever a teacher would say.
    """

    rows: "Dataset"
    taught: int


def training_rows(rows: "Dataset", recipe: Recipe) -> TrainingRows:
    """The rows that a recipe reads of the training split, a share of those of its bot, then what it makes of them."""
    chosen = share_of(of_bot(rows, recipe.data.bot), recipe.data.train_fraction, recipe.seed)
    taught, certain = [chosen], []
    if recipe.distillation.transfer_per_row:
        taught.append(transfer_rows(chosen, recipe.distillation.transfer_per_row))
    if recipe.augmentation.context_negatives:
        certain.append(replaced_rows(chosen, recipe.augmentation.context_negatives, recipe.seed))
    if recipe.augmentation.nli:
        pairs = load_split(recipe.augmentation.nli, "nli", "train")
        certain.append(nli_rows(chosen, pairs, recipe.augmentation.nli_pairs_per_row, recipe.seed))
    parts = [*taught, *certain]
    if recipe.loss.ranking or recipe.augmentation.crossed:
        columns = ("premise",) if recipe.data.view == "nli" else CONVERSATION[:-1]
        parts, groups = _grouped(parts, columns)
        if recipe.augmentation.crossed:
            parts.append(crossed_rows(parts[0], groups, recipe.seed))
    return TrainingRows(concatenate_datasets(parts) if len(parts) > 1 else parts[0], sum(map(len, taught)))


def _grouped(parts: "list[Dataset]", columns: tuple[str, ...]) -> "tuple[list[Dataset], int]":
    """The parts with a column ``group`` that numbers contexts, the values of some columns; and how many there are."""
    numbers: dict[tuple[str, ...], int] = {}
    grouped = []
    for part in parts:
        contexts = zip(*(part[name] for name in columns), strict=True)
        groups = [numbers.setdefault(context, len(numbers)) for context in contexts]
        grouped.append(part.add_column(GROUP, groups))
    return grouped, len(numbers)


def share_of(rows: "Dataset", share: float, seed: int) -> "Dataset":
    """A share of the rows, drawn label by label, in their order; at least one row of each label.

    For one seed the draws are nested: what 10 % hold lies in 25 %, so that two points of a learning curve differ by
    rows that were added and by none that were taken away.

    Args:
        rows: of a split, with a column ``label``.
        share: above 0; 1 gives the rows as they are.
        seed: of the draw.
    """
    if share == 1:
        return rows
    labels = np.array([UNLABELLED if label is None else label for label in rows["label"]])
    order = np.random.default_rng(seed).permutation(len(labels))
    chosen = []
    for label in np.unique(labels):
        members = order[labels[order] == label]
        chosen.append(members[: max(1, round(share * len(members)))])
    return rows.select(np.sort(np.concatenate(chosen)))


def replaced_rows(rows: "Dataset", times: int, seed: int) -> "Dataset":
    """Each row labelled history again, after the first turn of a row drawn from the same bot, as no contradiction.

    A detector can learn the labels of CDConv from how a reply sounds, without a look at what it is said to contradict.
    On these rows that is of no use: the reply is the same, and the label is not (the check *remove contradicting turns*
    of DECODE, Nie et al., 2021, section 3.3, for training). A drawn turn may clash with the reply by chance.

    Args:
        rows: of the training split, with the labels of 4-class.
        times: how many to make of each.
        seed: of the draw.

    Returns:
        Rows of the same columns; all but ``u1`` and ``b1`` are those of the row that the reply is from.

    Raises:
        InputError: a bot has one context only.
    """
    names = rows.features["label"]
    chosen = np.repeat(np.flatnonzero(np.asarray(rows["label"]) == names.str2int(HISTORY)), times)
    draw = np.random.default_rng(seed)
    bots, said = np.asarray(rows["bot"]), np.asarray(rows["u1"])
    others = [np.flatnonzero((bots == bots[row]) & (said != said[row])) for row in chosen]
    if not all(map(len, others)):
        raise InputError("key 'replaced': no row of another context and the same bot to take a first turn from")
    first = [draw.choice(each) for each in others]
    made, other = rows.select(chosen).to_dict(), rows.select(first)
    made |= {"u1": list(other["u1"]), "b1": list(other["b1"])}
    made["label"] = [names.str2int(NON_CONTRADICTION)] * len(chosen)
    return type(rows).from_dict(made, features=rows.features)


def nli_rows(rows: "Dataset", pairs: "Dataset", times: int, seed: int) -> "Dataset":
    """Training rows whose two replies are the premise and the hypothesis of a pair, drawn without replacement.

    A backbone that was fine-tuned on NLI forgets it as it learns CDConv, where a reply alone, or its context alone,
    tells much of the label. Read beside the rows, the pairs keep what they taught (rehearsal: Robins, 1995,
    *Catastrophic forgetting, rehearsal and pseudorehearsal*): of those, one sentence tells little without the other.

    Args:
        rows: of the training split; a pair stands in a drawn one, in place of b1 and b2.
        pairs: of NLI, with the columns premise, hypothesis and label.
        times: how many to make for each of the rows.
        seed: of both draws.

    Returns:
        Rows of the same columns. A pair that contradicts is a row labelled history, or a contradiction where the rows
        have two labels; any other contradicts nothing.

    Raises:
        InputError: there are too few pairs.
    """
    wanted = times * len(rows)
    if wanted > len(pairs):
        raise InputError(
            f"key 'nli_pairs': {times} for each of {len(rows):,} rows are {wanted:,}, and there are {len(pairs):,} "
            f"pairs; {len(pairs) // len(rows)} is the most"
        )
    draw = np.random.default_rng(seed)
    drawn = pairs.select(draw.permutation(len(pairs))[:wanted])
    made = rows.select(draw.permutation(np.repeat(np.arange(len(rows)), times))).to_dict()
    labels = rows.features["label"]
    clash = labels.str2int(HISTORY if HISTORY in labels.names else CONTRADICTION)
    contradicts = _contradicts(drawn)
    made |= {"b1": list(drawn["premise"]), "b2": list(drawn["hypothesis"])}
    made["label"] = [clash if each else labels.str2int(NON_CONTRADICTION) for each in contradicts]
    return type(rows).from_dict(made, features=rows.features)


def _contradicts(pairs: "Dataset") -> list[bool]:
    """Whether each pair contradicts; of a pair without a label the column ``contradiction`` says it."""
    contradiction = pairs.features["label"].str2int(CONTRADICTION)
    labels = pairs["label"]
    known = pairs["contradiction"] if "contradiction" in pairs.column_names else [None] * len(labels)
    return [flag if label is None else label == contradiction for label, flag in zip(labels, known, strict=True)]


CONTEXTS_PER_CHUNK = 256  # contexts


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
    for first in range(0, said.shape[0], CONTEXTS_PER_CHUNK):
        yield from (said[first : first + CONTEXTS_PER_CHUNK] @ questions.T).toarray()


def _members(keys: Iterable[tuple[str, str, int]]) -> dict[tuple[str, str, int], list[int]]:
    """The numbers of the rows of each key, in their order."""
    found: dict[tuple[str, str, int], list[int]] = {}
    for number, key in enumerate(keys):
        found.setdefault(key, []).append(number)
    return found
