"""Checklists: changed test conversations whose labels are known without a new annotation.

After Nie et al., "I like fish, especially dolphins" (ACL 2021), section 3.3. ``a2t`` ("add two turns") inserts turns of
other conversations before the last one; label and evidence do not change. ``rct`` ("remove contradicting turns")
removes the first turn: a reply that contradicted it then contradicts nothing.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from contradiction import cdconv
from contradiction.conversation import alternating
from contradiction.errors import InputError
from contradiction.labels import A2T, HISTORY, LABELS, NON_CONTRADICTION, RCT, ROLE

if TYPE_CHECKING:
    from datasets import Dataset, Features

TASK = "4-class"
SPLIT = "test"
SEED = 13
MOST = 5  # the most inserted turns
# The triggers whose u2 asks about the user's words in u1 (paper, section 4.2). A reply that contradicts the history
# contradicts u1 after these triggers, and b1 after the others.
ABOUT_USER = ("inquiring-user", "inquiring-user-m")
REMOVED, REPLACED = FORMS = ("removed", "replaced")

Pair = tuple[str, str]  # a user message and the reply to it
Row = dict[str, Any]


def add_turns(rows: Sequence[cdconv.Row]) -> list[Row]:
    """A2T: every row of a split of CDConv with one to five turns of other conversations between its two turns.

    The row with n inserted turns has the turns of the row with n - 1 and one more, so only the distance differs. The
    turns come from the same bot, so that their style does not distinguish them from the contradicted turn.

    Returns:
        Five rows for each row: id, messages, inserted (1 to 5), label (class id), evidence (indices of the messages
        that the last one contradicts; see ``evidence_of``).

    Raises:
        InputError: the split has too few conversations.
    """
    unrelated = _unrelated(rows)
    return [
        {
            "id": row["id"],
            "messages": alternating([row["u1"], row["b1"], *chain(*turns[:inserted]), row["u2"], row["b2"]]),
            "inserted": inserted,
            "label": row["label"],
            "evidence": evidence_of(row),
        }
        for row, turns in zip(rows, map(unrelated, rows), strict=True)
        for inserted in range(1, MOST + 1)
    ]


def remove_turn(rows: Sequence[cdconv.Row]) -> list[Row]:
    """RCT: every row of a split of CDConv without its first turn, and once more with an unrelated turn in its place.

    The second form is for detectors that read two turns; its turn is the first that ``add_turns`` inserts. Rows of role
    confusion are left out, because it often depends on the first turn, and their new labels are unknown.

    Returns:
        Two rows for each row: id, messages, form (class id of ``FORMS``), label (class id; history becomes
        non-contradiction), origin (the original class id).

    Raises:
        InputError: the split has too few conversations.
    """
    unrelated = _unrelated(rows)
    names = LABELS[TASK]
    changed = []
    for row in rows:
        if names[row["label"]] == ROLE:
            continue
        label = names.index(NON_CONTRADICTION) if names[row["label"]] == HISTORY else row["label"]
        for form, before in ((REMOVED, ()), (REPLACED, unrelated(row)[:1])):
            changed.append(
                {
                    "id": row["id"],
                    "messages": alternating([*chain(*before), row["u2"], row["b2"]]),
                    "form": FORMS.index(form),
                    "label": label,
                    "origin": row["label"],
                }
            )
    return changed


def evidence_of(row: cdconv.Row) -> list[int]:
    """The indices of the messages that the last reply of a row contradicts; inserted turns do not change them.

    Only history contradictions have evidence. It follows from the trigger: 0 (``u1``) where u2 asks about the user, and
    otherwise 1 (``b1``).
    """
    if LABELS[TASK][row["label"]] != HISTORY:
        return []
    return [0 if row["trigger"] in ABOUT_USER else 1]


def build(splits: Mapping[str, Mapping[str, Sequence[cdconv.Row]]]) -> dict[str, "Dataset"]:
    """All checklists of the result of :func:`contradiction.data.splits.both_splits`, by config name.

    Raises:
        InputError: a test split has too few conversations.
    """
    from datasets import Dataset

    rows_of = {
        f"{TASK}{kind}{suffix}": make(sides[SPLIT])
        for suffix, sides in splits.items()
        for kind, make in ((A2T, add_turns), (RCT, remove_turn))
    }
    return {config: Dataset.from_list(rows, features=_features(rows[0])) for config, rows in rows_of.items()}


def _features(columns: Row) -> "Features":
    from datasets import ClassLabel, Features, List, Value

    types = {
        "id": Value("int32"),
        "messages": List({"role": Value("string"), "content": Value("string")}),
        "inserted": Value("int8"),
        "form": ClassLabel(names=list(FORMS)),
        "label": ClassLabel(names=list(LABELS[TASK])),
        "evidence": List(Value("int8")),
        "origin": ClassLabel(names=list(LABELS[TASK])),
    }
    return Features({name: types[name] for name in columns})


def _unrelated(rows: Sequence[cdconv.Row]) -> Callable[[cdconv.Row], list[Pair]]:
    """A function from a row to the turns to insert: first turns of five other ``u1`` without utterances of the row.

    Only first turns are drawn, because second turns depend on the first.
    """
    pools: dict[str, dict[str, Pair]] = {bot: {} for bot in cdconv.BOTS}
    for row in rows:
        pools[row["bot"]].setdefault(row["u1"], (row["u1"], row["b1"]))

    def draw(row: cdconv.Row) -> list[Pair]:
        utterances = {row[column] for column in cdconv.UTTERANCES}
        candidates = [turn for turn in pools[row["bot"]].values() if utterances.isdisjoint(turn)]
        if len(candidates) < MOST:
            raise InputError(
                f"the test split has {len(candidates)} other conversations with {row['bot']} to insert turns of into "
                f"row {row['id']}; checklists need {MOST}, so build from more rows, or without them"
            )
        # Seeded by the row, so that the turns do not depend on other rows.
        return random.Random(f"{SEED}-{row['id']}").sample(candidates, MOST)

    return draw
