"""The label names of every task, and functions on them. Labels are resolved by name, never by number.

``cdconv.py`` and ``evaluate_metric/evaluate_metric.py`` run as single files, so each has a copy of the
tables; a test compares them.
"""

from collections.abc import Iterable, Mapping

NON_CONTRADICTION = "non-contradiction"
CONTRADICTION = "contradiction"
INTRA, ROLE, HISTORY = "intra-sentence", "role-confusion", "history"
CATEGORIES = (INTRA, ROLE, HISTORY)

# The names in the cards of the released data and of the embedded sample. Cards of other data have other names.
RELEASE, EMBEDDED = "CDConv", "CDConv sample"
RELEASE_ID = "thu-coai/cdconv"  # under which the authors publish the data on the Hub
# The two bots whose replies the conversations hold.
BOTS = ("eva", "plato")
# Task -> label names; the position is the class id.
LABELS: Mapping[str, tuple[str, ...]] = {
    "2-class": (NON_CONTRADICTION, CONTRADICTION),
    "4-class": (NON_CONTRADICTION, *CATEGORIES),
    "persona": ("unrelated", "attributes", "opinions", "experiences"),
    "nli": ("entailment", "neutral", CONTRADICTION),
    "response": ("wrong", "right"),
    "verifiable": ("not verifiable", "verifiable"),
}
# Task -> its labels that are contradictions, for tasks that can be merged to 2-class.
CONTRADICTIONS: Mapping[str, tuple[str, ...]] = {
    "2-class": (CONTRADICTION,),
    "4-class": CATEGORIES,
    "nli": (CONTRADICTION,),
    **{category: (category,) for category in CATEGORIES},
}
# The stages of the hierarchical method, in the order in which they decide: each separates one category from all others.
OTHER = "other"
STAGES: Mapping[str, tuple[str, ...]] = {category: (OTHER, category) for category in CATEGORIES}
GROUPED = "-grouped"
# Configs of two texts: premise and hypothesis, or a whole chat and its reply. MuTual also has a harder edition.
NLI, CHAT = "nli-", "chat-"
PLUS = "-plus"
CONFIGS = (
    *(task + suffix for suffix in ("", GROUPED) for task in ("2-class", "4-class", "persona")),
    "nli",
    f"{NLI}2-class",
    *(CHAT + task for task in ("2-class", "response", f"response{PLUS}", "verifiable")),
)
# The corpora of chats and replies that are crossed, see ``contradiction.data.corpora.crossed``.
CROSSED, CROSSED_LONG, CROSSED_EN = "crossed", "crossed-long", "crossed-en"
CROSSED_CONFIGS = (CROSSED, CROSSED_LONG, CROSSED_EN)
# Test conversations with turns added, and with the first turn removed; see ``contradiction.data.checklists``.
A2T, RCT = "-a2t", "-rct"
CHECKLISTS = tuple(f"4-class{kind}{suffix}" for suffix in ("", GROUPED) for kind in (A2T, RCT))


# Tasks whose models are no detectors of contradictions in chats; they get no decision rule.
WITHOUT_RULE = ("nli", "response", "verifiable")


def task_of(config: str) -> str:
    """The task of a data set config: ``4-class-a2t-grouped`` and ``nli-2-class`` -> ``4-class`` and ``2-class``."""
    for suffix in (GROUPED, A2T, RCT, PLUS):
        config = config.removesuffix(suffix)
    return config.removeprefix(NLI).removeprefix(CHAT)


def has_two_texts(config: str) -> bool:
    """Whether the rows of a config are pairs of texts, as in ``nli`` and ``chat-2-class``, and not conversations."""
    return f"{config}-".startswith((NLI, CHAT))


def task_of_labels(names: Iterable[str]) -> str | None:
    """The task or stage with exactly these label names, in any order; None where there is none."""
    ordered = sorted(names)
    return next((task for task, labels in {**LABELS, **STAGES}.items() if sorted(labels) == ordered), None)


def is_contradiction(label: str) -> bool:
    """Whether a label is a contradiction of any kind."""
    return label == CONTRADICTION or label in CATEGORIES


def merge(task: str, scores: Mapping[str, float]) -> dict[str, float]:
    """Merges the probabilities of a task to those of ``2-class``: a contradiction has the sum of all contradictions."""
    contradiction = sum(scores[label] for label in CONTRADICTIONS[task])
    return {NON_CONTRADICTION: sum(scores.values()) - contradiction, CONTRADICTION: contradiction}


def merge_label(label: str) -> str:
    """The label of ``2-class`` for a label of a task that has contradictions."""
    return CONTRADICTION if is_contradiction(label) else NON_CONTRADICTION


def merge_id(task: str, label: int) -> int:
    """The class id of ``2-class`` for a class id of a task."""
    return LABELS["2-class"].index(merge_label(LABELS[task][label]))
