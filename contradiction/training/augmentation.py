"""The rows that a recipe trains on: a fraction of the training split, and further rows that are made from it.

The replies of CDConv have 12 characters on average and at most 38, and half of them end without punctuation. A detector
that was trained on them alone changes some decisions if a full stop is added, and misses most contradictions in the
long replies of language models. So a recipe can also rewrite messages in ways that leave their labels as they are.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from datasets import concatenate_datasets

from contradiction.conversation import ASSISTANT, read_turns
from contradiction.data.corpora.crossed import Item, Quadruple, read, read_batch, training_files
from contradiction.data.splits import bots_of, has_label, load_split, of_bot
from contradiction.errors import InputError
from contradiction.inputs.views import CONVERSATION, TWO_TEXTS, VIEWS, Row, windows
from contradiction.labels import CONTRADICTION, HISTORY, NON_CONTRADICTION
from contradiction.training.losses import GROUP, UNLABELLED
from contradiction.training.recipe import Recipe

if TYPE_CHECKING:
    from datasets import Dataset
    from scipy.sparse import csr_matrix

CONTEXTS_PER_CHUNK = 256
NEUTRAL_SENTENCES = Path(__file__).resolve().parents[1] / "data" / "neutral_sentences.txt"
FULL_STOP = "。"
PUNCTUATION = "。！？!?…~～，,；;：:"
REPLIES = ("b1", "b2")
# A sentence of 8 to 40 characters without the pronouns I, you, he and she.
STATEMENT = re.compile(r"(?:(?<=[。！？])|^)[^。！？我你您咱他她]{7,39}[。！？]")
LONG = 60  # characters
MOST_SENTENCES = 4  # added to one reply; a sentence has 8 to 45 characters


@dataclass(frozen=True)
class TrainingRows:
    """The rows of one training epoch.

    The teachers give probabilities for the first ``teacher_rows``. The labels of the others follow from how those rows
    were made, so no teacher predicts them.
    """

    rows: "Dataset"
    teacher_rows: int


def labelled_rows(rows: "Dataset", recipe: Recipe) -> "Dataset":
    """The fraction of the rows of its bot that a recipe uses."""
    return fraction_of(of_bot(rows, recipe.data.bot), recipe.data.train_fraction, recipe.seed)


def training_rows(rows: "Dataset", recipe: Recipe) -> TrainingRows:
    """The rows that a recipe trains on: those of :func:`labelled_rows`, and the rows that it makes from them."""
    options, chosen = recipe.augmentation, labelled_rows(rows, recipe)
    with_teacher, without_teacher = [chosen], []
    if recipe.distillation.transfer_per_row:
        with_teacher.append(transfer_rows(chosen, recipe.distillation.transfer_per_row))
    if options.context_negatives:
        without_teacher.append(context_negative_rows(chosen, options.context_negatives, recipe.seed))
    if options.nli:
        pairs = load_split(options.nli, "nli", "train")
        without_teacher.append(nli_rows(chosen, pairs, options.nli_pairs_per_row, recipe.seed))
    parts = [*with_teacher, *without_teacher]
    if recipe.loss.ranking or options.crossed or recipe.loss.choice:
        view = recipe.data.view
        columns = VIEWS[TWO_TEXTS[view]][:1] if view in TWO_TEXTS else CONVERSATION[:-1]
        parts, groups = _grouped(parts, ("source",) if recipe.loss.choice else columns)
        if options.crossed:
            parts.append(
                crossed_rows(parts[0], groups, recipe.seed, options.context_negatives, options.crossed_batches)
            )
    made = concatenate_datasets(parts) if len(parts) > 1 else parts[0]
    return TrainingRows(made, sum(map(len, with_teacher)))


def with_values(rows: "Dataset", columns: Mapping[str, list[Any]]) -> "Dataset":
    """The same rows with other values in some columns."""
    return type(rows).from_dict({**rows.to_dict(), **columns}, features=rows.features)


def _grouped(parts: "list[Dataset]", columns: tuple[str, ...]) -> "tuple[list[Dataset], int]":
    """Adds a column ``group``, which numbers the contexts (the values of some columns); also returns their number."""
    numbers: dict[tuple[str, ...], int] = {}
    grouped = []
    for part in parts:
        contexts = zip(*(part[name] for name in columns), strict=True)
        groups = [numbers.setdefault(context, len(numbers)) for context in contexts]
        grouped.append(part.add_column(GROUP, groups))
    return grouped, len(numbers)


def fraction_of(rows: "Dataset", fraction: float, seed: int) -> "Dataset":
    """A random fraction of the rows of each label, in the original order; at least one row of each label.

    Samples with the same seed are nested: the 25 % sample contains the 10 % sample, so the next point of a learning
    curve only adds rows.
    """
    if fraction == 1:
        return rows
    labels = np.array([UNLABELLED if label is None else label for label in rows["label"][:]])
    order = np.random.default_rng(seed).permutation(len(labels))
    chosen = []
    for label in np.unique(labels):
        members = order[labels[order] == label]
        chosen.append(members[: max(1, round(fraction * len(members)))])
    return rows.select(np.sort(np.concatenate(chosen)))


def context_negative_rows(rows: "Dataset", times: int, seed: int) -> "Dataset":
    """Copies of the rows labelled history, with a first turn from another row of the same bot and no contradiction.

    A detector can learn the labels of CDConv from the style of a reply, without reading what the reply contradicts. In
    these rows, the same reply has the other label. The idea is the check *remove contradicting turns* of DECODE (Nie et
    al., 2021, section 3.3), used for training. The new first turn may contradict the reply by chance.

    Raises:
        InputError: a bot has only one context.
    """
    names = rows.features["label"]
    chosen = np.repeat(np.flatnonzero(np.asarray(rows["label"][:]) == names.str2int(HISTORY)), times)
    draw = np.random.default_rng(seed)
    bots, contexts = np.asarray(bots_of(rows)), np.asarray(rows["u1"])
    others = []
    for row in chosen:
        candidates = np.flatnonzero((bots == bots[row]) & (contexts != contexts[row]))
        if not len(candidates):
            raise InputError(
                "augmentation.context_negatives: no row of another context and the same bot has a first turn"
            )
        others.append(draw.choice(candidates))
    first_turns = {name: list(rows.select(others)[name]) for name in ("u1", "b1")}
    return with_values(rows.select(chosen), {**first_turns, "label": [names.str2int(NON_CONTRADICTION)] * len(chosen)})


def nli_rows(rows: "Dataset", pairs: "Dataset", times: int, seed: int) -> "Dataset":
    """Training rows in which b1 and b2 are the premise and the hypothesis of an NLI pair.

    A backbone that was fine-tuned on NLI forgets that task while it learns CDConv, where the reply alone, or the
    context alone, predicts much of the label. Training on both keeps what it learned (rehearsal: Robins, 1995,
    *Catastrophic forgetting, rehearsal and pseudorehearsal*). The pairs are drawn without replacement. Each row gets
    ``times`` of them, in as many copies.

    Returns:
        Rows with the same columns. A contradicting pair gets the label history, or contradiction where there are two
        labels, and any other pair the label non-contradiction.

    Raises:
        InputError: there are too few pairs.
    """
    draw = np.random.default_rng(seed)
    drawn = drawn_pairs(pairs, len(rows), times, draw)
    chosen = rows.select(draw.permutation(np.repeat(np.arange(len(rows)), times)))
    names = rows.features["label"]
    contradiction = names.str2int(HISTORY if HISTORY in names.names else CONTRADICTION)
    labels = [contradiction if flag else names.str2int(NON_CONTRADICTION) for flag in contradicts(drawn)]
    return with_values(chosen, {"b1": list(drawn["premise"]), "b2": list(drawn["hypothesis"]), "label": labels})


def drawn_pairs(pairs: "Dataset", rows: int, times: int, draw: np.random.Generator) -> "Dataset":
    """So many NLI pairs for each of some rows, without replacement; raises InputError if there are too few."""
    if times * rows > len(pairs):
        raise InputError(
            f"augmentation.nli_pairs_per_row: {times} for each of {rows:,} rows, and there are {len(pairs):,} "
            f"pairs; {len(pairs) // rows} is the most"
        )
    return pairs.select(draw.permutation(len(pairs))[: times * rows])


def contradicts(pairs: "Dataset") -> list[bool]:
    """Whether each pair contradicts; for pairs without a label, the column ``contradiction``."""
    contradiction = pairs.features["label"].str2int(CONTRADICTION)
    labels = pairs["label"]
    flags = pairs["contradiction"] if "contradiction" in pairs.column_names else [None] * len(labels)
    return [
        label == contradiction if has_label(label) else bool(flag) for label, flag in zip(labels, flags, strict=True)
    ]


def crossed_rows(
    rows: "Dataset", first_group: int, seed: int, context_negatives: int = 0, batches: Sequence[str] = ()
) -> "Dataset":
    """The training split of the crossed chats as rows of two turns.

    A row has a judged reply, the turn that holds the evidence, and the label of the reply. In a chat of several earlier
    turns, another row has a contradicting reply, another turn drawn at random, and the label non-contradiction. A
    detector reads a long chat through the same windows.

    Args:
        rows: rows of the training split, with the labels of 4-class or 2-class and a column ``group``.
        first_group: the number of the first quadruple or pair in that column.
        seed: the random seed.
        context_negatives: for each quadruple, so many more rows with a reply without its chat.
        batches: the batches to read, see the option ``crossed_batches``.

    Returns:
        Rows with the same columns; columns that only CDConv has are None.

    Raises:
        InputError: the training split has no batch of that name.
    """
    draw = np.random.default_rng(seed)
    label = rows.features["label"]
    columns: dict[str, list[Any]] = {name: [] for name in rows.column_names}
    try:
        items = [item for file in training_files(batches) for item in read_batch(file)]
    except InputError as error:
        raise InputError(f"augmentation.crossed_batches: {error}") from None
    quadruples = [item for item in items if isinstance(item, Quadruple)]
    for group, item in enumerate(items, start=first_group):
        labelled = list(_labelled_windows(item, draw))
        if isinstance(item, Quadruple):
            drawn = (quadruples[draw.integers(len(quadruples))] for _ in range(context_negatives))
            labelled += [(_without_its_chat(item, other, draw), NON_CONTRADICTION) for other in drawn]
        for window, name in labelled:
            if name not in label.names:
                name = CONTRADICTION
            values = {**window, "id": -1, "group": group, "label": label.str2int(name)}
            for column, cells in columns.items():
                cells.append(values.get(column))
    return type(rows).from_dict(columns, features=rows.features)


def _labelled_windows(item: Item, draw: np.random.Generator) -> Iterator[tuple[Row, str]]:
    for judged in item.judged():
        turns = read_turns(judged.chat())
        rows = [window.row for window in windows(turns, len(turns) - 1)]
        # The last window, if the evidence is in the reply or in the last user message, which every window has.
        place = min(item.evidence // 2, len(rows) - 1) if isinstance(item, Quadruple) else len(rows) - 1
        yield rows[place], str(judged.label)
        if judged.label != NON_CONTRADICTION and isinstance(item, Quadruple) and len(rows) > 1:
            yield rows[(place + draw.integers(1, len(rows))) % len(rows)], NON_CONTRADICTION


def _without_its_chat(item: Quadruple, other: Quadruple, draw: np.random.Generator) -> Row:
    """A row with a reply of a quadruple, and without the messages that it could contradict.

    The reply and the user message before it follow the first turn of another quadruple or nothing, or the reply alone
    follows both turns of the other quadruple, which may contradict it by chance.
    """
    chat, reply = ((item.a, item.reply_a), (item.b, item.reply_b))[draw.integers(2)]
    u1, b1, u2 = (message["content"] for message in (*other.a[:2], other.a[-1]))
    own_u2 = chat[-1]["content"]
    rows = ({"u1": u1, "b1": b1, "u2": own_u2}, {"u1": "", "b1": "", "u2": own_u2}, {"u1": u1, "b1": b1, "u2": u2})
    return {**rows[draw.integers(len(rows))], "b2": reply}


def transfer_rows(rows: "Dataset", times: int) -> "Dataset":
    """Unlabelled conversations: the first turn of one training row and the second turn of another.

    A teacher has memorised the labels of its training rows; unlabelled rows show what it has learned (Turc
    et al., 2019, *Well-read students learn better*, section 3). In CDConv, u2 takes up the topic of u1 or b1 (section
    4.2). So each context (u1, b1) is continued by the turns (u2, b2) of the same bot whose u2 is most similar to it, by
    the cosine of TF-IDF vectors of characters and character bigrams, and does not already follow the same u1.

    Returns:
        ``times`` x ``len(rows)`` rows with the same columns, fewer where a bot has too few turns. ``label`` is None;
        ``id`` and the other columns come from the row of the context. No two rows of one bot have the same text.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    columns, bots = {name: list(rows[name]) for name in CONVERSATION}, bots_of(rows)
    contexts = _rows_by_key(zip(columns["u1"], columns["b1"], bots, strict=True))
    turns = _rows_by_key(zip(columns["u2"], columns["b2"], bots, strict=True))
    used: dict[str, set[str]] = {}
    for u1, u2 in zip(columns["u1"], columns["u2"], strict=True):
        used.setdefault(u1, set()).add(u2)
    words = TfidfVectorizer(analyzer="char", ngram_range=(1, 2), sublinear_tf=True)
    questions = words.fit_transform(columns["u2"])[[members[0] for members in turns.values()]]
    context_vectors = words.transform([columns["u1"][i] + columns["b1"][i] for i, *_ in contexts.values()])
    keys = list(turns)
    chosen: list[tuple[int, int]] = []
    similarities = _similarities(context_vectors, questions)
    for (u1, _, bot), members, similarity in zip(contexts, contexts.values(), similarities, strict=True):
        near = np.argsort(-similarity, kind="stable")
        fitting = (turn for turn in near if keys[turn][2] == bot and keys[turn][0] not in used[u1])
        nearest = [turns[keys[turn]][0] for turn, _ in zip(fitting, range(times * len(members)), strict=False)]
        chosen += [(members[number // times], turn) for number, turn in enumerate(nearest)]
    second_turns = {name: [columns[name][turn] for _, turn in chosen] for name in ("u2", "b2")}
    made = rows.select([context for context, _ in chosen])
    return with_values(made, {**second_turns, "label": [None] * len(chosen)})


def _similarities(contexts: "csr_matrix", questions: "csr_matrix") -> Iterator[np.ndarray]:
    """The similarity of each context to all questions, in chunks: the product of the matrices is nearly dense."""
    for first in range(0, contexts.shape[0], CONTEXTS_PER_CHUNK):
        yield from (contexts[first : first + CONTEXTS_PER_CHUNK] @ questions.T).toarray()


def _rows_by_key(keys: Iterable[tuple[str, str, int]]) -> dict[tuple[str, str, int], list[int]]:
    """The row numbers of each key, in their order."""
    rows: dict[tuple[str, str, int], list[int]] = {}
    for number, key in enumerate(keys):
        rows.setdefault(key, []).append(number)
    return rows


def rewritten_rows(rows: "Dataset", endings: float, long_replies: float, seed: int) -> "Dataset":
    """The same rows, as a student reads them, with other endings and longer replies; teachers read the original rows.

    Args:
        rows: conversations of two turns. An absent or empty message stays as it is.
        endings: the share of the messages whose full stop at the end is added or removed. A message with another
            punctuation mark at the end does not change.
        long_replies: the share of the rows, or of the groups of rows with a column ``group``, in which other sentences
            are added to ``b1``, to ``b2`` or to both. A reply of ``LONG`` characters or more stays as it is.
        seed: the random seed.
    """
    if not endings and not long_replies:
        return rows
    draw = np.random.default_rng(seed)
    columns = {name: list(rows[name]) for name in CONVERSATION if name in rows.column_names}
    groups = np.asarray(rows[GROUP] if GROUP in rows.column_names else range(len(rows)), dtype=int)
    is_longer = draw.random(groups.max(initial=-1) + 1) < long_replies
    for row, group in enumerate(groups):
        if is_longer[group]:
            for name in (REPLIES, REPLIES[:1], REPLIES[1:])[draw.integers(3)]:
                reply = columns[name][row] if name in columns else None
                longer = _longer(reply or "", draw)
                if reply and len(reply) < LONG:  # before an opening reply there is none
                    columns[name][row] = longer
        for messages in columns.values():
            if draw.random() < endings and messages[row]:
                messages[row] = _other_ending(messages[row])
    return with_values(rows, columns)


def _other_ending(message: str) -> str:
    if message.endswith(FULL_STOP):
        return message[:-1] or message
    return message if message[-1] in PUNCTUATION else message + FULL_STOP


def _longer(reply: str, draw: np.random.Generator) -> str:
    """A reply with other sentences before it, after it, or on both sides."""
    chosen = []
    for _ in range(draw.integers(1, MOST_SENTENCES + 1)):
        sentences = (neutral_sentences(), statements())[draw.integers(2)]
        chosen.append(sentences[draw.integers(len(sentences))])
    before = chosen[: draw.integers(len(chosen) + 1)]
    after = chosen[len(before) :]
    end = FULL_STOP if after and reply and reply[-1] not in PUNCTUATION else ""
    return "".join([*before, reply, end, *after])


@cache
def neutral_sentences() -> tuple[str, ...]:
    """Sentences that fit beside any reply, as language models write them. They were written for this project (CC0)."""
    return tuple(NEUTRAL_SENTENCES.read_text(encoding="utf-8").splitlines())


@cache
def statements() -> tuple[str, ...]:
    """Sentences of the assistant in the training split of the crossed chats, about neither the speaker nor the user."""
    sentences: dict[str, None] = {}
    for item in read("train"):
        if isinstance(item, Quadruple):
            for message in (*item.a, *item.b):
                if message["role"] == ASSISTANT:
                    sentences |= dict.fromkeys(STATEMENT.findall(message["content"]))
    return tuple(sentences)
