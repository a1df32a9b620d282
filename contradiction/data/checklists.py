"""Checklists: test conversations changed so that the right answer is known without a new annotation.

After Nie et al., "I like fish, especially dolphins" (ACL 2021), section 3.3. ``a2t`` ("add two turns") inserts turns of
other conversations before the last one: label and evidence stay. ``rct`` ("remove contradicting turns") takes the first
turn away: a reply that contradicted it contradicts nothing any more.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import cdconv
from contradiction.errors import InputError
from contradiction.io.tables import Table
from contradiction.labels import A2T, HISTORY, LABELS, NON_CONTRADICTION, RCT, ROLE

if TYPE_CHECKING:
    from datasets import Dataset, Features

TASK = "4-class"
SPLIT = "test"
SEED = 13
MOST = 5  # inserted turns
# The triggers whose u2 asks what the user told in u1 (paper, section 4.2): a reply that contradicts the history there
# contradicts u1, and otherwise b1.
ABOUT_USER = ("inquiring-user", "inquiring-user-m")
REMOVED, REPLACED = FORMS = ("removed", "replaced")

Pair = tuple[str, str]  # a user message and the reply to it
Row = dict[str, Any]


def add_turns(rows: Sequence[cdconv.Row]) -> list[Row]:
    """A2T: every row with one to five turns of other conversations between its two.

    The turns of a row with n inserted are those of the row with n - 1 and one more, so that nothing but the distance
    differs. They come from the same bot, so that no change of style tells them from the turn that is contradicted.

    Args:
        rows: of one split, as ``cdconv.official_split`` gives them.

    Returns:
        Five rows for each: id, messages, inserted (1 to 5), label (class id), evidence (indices of the messages that
        the last one contradicts; see ``evidence_of``).

    Raises:
        InputError: the split has too few conversations to draw from.
    """
    unrelated = _unrelated(rows)
    found = []
    for row in rows:
        turns = unrelated(row)
        for inserted in range(1, MOST + 1):
            found.append(
                {
                    "id": row["id"],
                    "messages": messages((row["u1"], row["b1"]), *turns[:inserted], (row["u2"], row["b2"])),
                    "inserted": inserted,
                    "label": row["label"],
                    "evidence": evidence_of(row),
                }
            )
    return found


def remove_turn(rows: Sequence[cdconv.Row]) -> list[Row]:
    """RCT: every row without its first turn, and once more with an unrelated turn in its place.

    The second form is for detectors that read two turns; the turn is the first that ``add_turns`` inserts. Left out is
    role confusion: whose part a reply takes can often be told from the first turn alone, so nobody knows which of these
    replies are still confused without it.

    Args:
        rows: of one split, as ``cdconv.official_split`` gives them.

    Returns:
        Two rows for each: id, messages, form (class id of ``FORMS``), label (class id: history has become
        non-contradiction, the others stay), origin (class id of the row before).

    Raises:
        InputError: the split has too few conversations to draw from.
    """
    unrelated = _unrelated(rows)
    names = LABELS[TASK]
    found = []
    for row in rows:
        if names[row["label"]] == ROLE:
            continue
        label = names.index(NON_CONTRADICTION) if names[row["label"]] == HISTORY else row["label"]
        for form, before in ((REMOVED, ()), (REPLACED, unrelated(row)[:1])):
            found.append(
                {
                    "id": row["id"],
                    "messages": messages(*before, (row["u2"], row["b2"])),
                    "form": FORMS.index(form),
                    "label": label,
                    "origin": row["label"],
                }
            )
    return found


def evidence_of(row: cdconv.Row) -> list[int]:
    """Indices of the messages that the last reply of a row contradicts, whatever is inserted after the first turn.

    Only history has any. It is not annotated but follows from the trigger: 0, which is ``u1``, where the bot was asked
    about the user; else 1, which is ``b1``.
    """
    if LABELS[TASK][row["label"]] != HISTORY:
        return []
    return [0 if row["trigger"] in ABOUT_USER else 1]


def messages(*turns: Pair) -> list[dict[str, str]]:
    """Turns as chat messages: user, assistant, user, assistant, ..."""
    roles = ("user", "assistant")
    return [{"role": role, "content": text} for turn in turns for role, text in zip(roles, turn, strict=True)]


def build(splits: Mapping[str, Mapping[str, Sequence[cdconv.Row]]]) -> dict[str, "Dataset"]:
    """All checklists, by config name.

    Args:
        splits: ``{"": official, "-grouped": grouped}``, each as ``cdconv.official_split`` returns it.

    Raises:
        InputError: a test split has too few conversations to draw from.
    """
    from datasets import Dataset

    made = {
        f"{TASK}{kind}{suffix}": make(sides[SPLIT])
        for suffix, sides in splits.items()
        for kind, make in ((A2T, add_turns), (RCT, remove_turn))
    }
    return {config: Dataset.from_list(rows, features=_features(rows[0])) for config, rows in made.items()}


def _features(columns: Row) -> "Features":
    from datasets import ClassLabel, Features, List, Value

    known = {
        "id": Value("int32"),
        "messages": List({"role": Value("string"), "content": Value("string")}),
        "inserted": Value("int8"),
        "form": ClassLabel(names=list(FORMS)),
        "label": ClassLabel(names=list(LABELS[TASK])),
        "evidence": List(Value("int8")),
        "origin": ClassLabel(names=list(LABELS[TASK])),
    }
    return Features({name: known[name] for name in columns})


def _unrelated(rows: Sequence[cdconv.Row]) -> Callable[[cdconv.Row], list[Pair]]:
    """Gives for a row its turns to insert: first turns of five other ``u1``, none of them with an utterance of the row.

    Only first turns are drawn, because a second one hangs on what was said before it.
    """
    pools: dict[str, dict[str, Pair]] = {bot: {} for bot in cdconv.BOTS}
    for row in rows:
        pools[row["bot"]].setdefault(row["u1"], (row["u1"], row["b1"]))

    def draw(row: cdconv.Row) -> list[Pair]:
        said = {row[column] for column in cdconv.UTTERANCES}
        others = [turn for turn in pools[row["bot"]].values() if said.isdisjoint(turn)]
        if len(others) < MOST:
            raise InputError(
                f"the test split has {len(others)} other conversations with {row['bot']} to insert turns of into row "
                f"{row['id']}; checklists need {MOST}, so build from more rows, or without them"
            )
        # Seeded by the row, so that what it is given does not hang on the rows before it.
        return random.Random(f"{SEED}-{row['id']}").sample(others, MOST)

    return draw


def sizes(found: Mapping[str, "Dataset"]) -> Table:
    """Rows of each checklist, by label."""
    body = []
    for config, rows in found.items():
        names = rows.features["label"].names
        labels = list(rows["label"])
        by_name = ", ".join(f"{name} {labels.count(index):,}" for index, name in enumerate(names))
        body.append((config, SPLIT, f"{len(rows):,}", by_name))
    return Table("Checklists", ("config", "split", "rows", "labels"), body)
