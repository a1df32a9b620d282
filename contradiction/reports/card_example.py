"""The example on the card of a model: its texts, and what the model says of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contradiction.conversation import alternating
from contradiction.errors import InputError
from contradiction.inputs.views import CONVERSATION
from contradiction.verdict import Verdict

CHINESE_EXAMPLE = {
    "u1": "你养猫吗？", "b1": "养了一只橘猫", "u2": "它叫什么名字？", "b2": "我没养过猫呀",
    "premise": "他喜欢吃辣", "hypothesis": "他不吃辣", "chat": "user: 你养猫吗？ assistant: 养了一只橘猫",
    "reply": "我没养过猫呀",
}  # fmt: skip
ENGLISH_EXAMPLE = {
    "u1": "Do you have a cat?", "b1": "Yes, a ginger one.", "u2": "What is its name?", "b2": "I never had a cat.",
    "premise": "He likes spicy food.", "hypothesis": "He does not eat spicy food.",
    "chat": "user: Do you have a cat? assistant: Yes, a ginger one.", "reply": "I never had a cat.",
}  # fmt: skip


def chat_of(example: Mapping[str, str]) -> list[dict[str, str]]:
    """The messages of an example."""
    return alternating(example[column] for column in CONVERSATION)


def text_pair(columns: Sequence[str], separator: str, example: Mapping[str, str]) -> dict[str, str]:
    """The example as input of a checkpoint that reads these columns."""
    *context, last = (example[column] for column in columns)
    return {"text": separator.join(context), "text_pair": last} if context else {"text": last}


def pipeline_scores(checkpoint: Path, example: Mapping[str, str]) -> dict[str, float] | None:
    """The score of each label by `transformers` alone, to two digits; None without weights."""
    if not any(checkpoint.glob("*.safetensors")):
        return None
    from transformers import pipeline

    from contradiction.io.quiet import no_model_bars

    with no_model_bars():
        classify = pipeline("text-classification", model=str(checkpoint), top_k=None, device="cpu")
    answers: Any = classify([dict(example)], truncation=True)  # its declared type is that of a single label
    [scores] = answers
    return {score["label"]: round(score["score"], 2) for score in scores}


def detector_verdict(folder: Path, example: Mapping[str, str]) -> Verdict | None:
    """The verdict of ``ContradictionDetector`` on an example.

    None without weights, and if the model does not judge replies or cannot read the example.
    """
    if not any(folder.rglob("*.safetensors")):
        return None
    from contradiction.detector import ContradictionDetector

    try:
        verdict = ContradictionDetector.from_pretrained(folder, device="cpu")(chat_of(example))
    except InputError:
        return None
    return verdict if verdict.label else None
