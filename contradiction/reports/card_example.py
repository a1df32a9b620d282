"""The example on the card of a model: its texts, and what the model says of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contradiction.conversation import alternating
from contradiction.errors import InputError
from contradiction.inputs.views import CONVERSATION
from contradiction.io.files import read_json
from contradiction.verdict import Verdict

CHINESE_EXAMPLE = {
    "u1": "你会开车吗？", "b1": "我会开车，开了十年", "u2": "带我去兜风吧", "b2": "我不会开车",
    "premise": "他喜欢吃辣", "hypothesis": "他不吃辣", "chat": "user: 你会开车吗？ assistant: 我会开车，开了十年",
    "reply": "我不会开车",
}  # fmt: skip
ENGLISH_EXAMPLE = {
    "u1": "Do you have a cat?", "b1": "Yes, a ginger one.", "u2": "What is its name?", "b2": "I never had a cat.",
    "premise": "He likes spicy food.", "hypothesis": "He does not eat spicy food.",
    "chat": "user: Do you have a cat? assistant: Yes, a ginger one.", "reply": "I never had a cat.",
}  # fmt: skip
# The last texts of the examples, and texts in their place that contradict nothing.
CONSISTENT = {
    "我不会开车": "好啊，我来接你", "他不吃辣": "他爱吃辣的菜",
    "I never had a cat.": "Her name is Ginger.", "He does not eat spicy food.": "He likes hot dishes.",
}  # fmt: skip


def consistent(example: Mapping[str, str]) -> dict[str, str]:
    """An example with a last text that contradicts nothing."""
    return {column: CONSISTENT.get(text, text) for column, text in example.items()}


def chat_of(example: Mapping[str, str]) -> list[dict[str, str]]:
    """The messages of an example."""
    return alternating(example[column] for column in CONVERSATION)


def text_pair(columns: Sequence[str], separator: str, example: Mapping[str, str]) -> dict[str, str]:
    """The example as input of a checkpoint that reads these columns."""
    *context, last = (example[column] for column in columns)
    return {"text": separator.join(context), "text_pair": last} if context else {"text": last}


def separator_of(folder: Path) -> str:
    """The token between two texts, from the file, because loading a tokenizer of `transformers` is slow."""
    saved = read_json(folder / "tokenizer_config.json")
    return saved.get("sep_token") or saved.get("eos_token") or "\n"


@dataclass(frozen=True)
class Answer:
    """What `transformers` alone says of an example.

    Attributes:
        scores: the score of each label, to two digits.
        text: the example as one text, for the widget of the Hub, which sends one text; None if there is no such text
            that the checkpoint reads as the same tokens.
    """

    scores: dict[str, float]
    text: str | None


def pipeline_answers(checkpoint: Path, examples: Sequence[Mapping[str, str]]) -> list[Answer]:
    """The answers of `transformers` alone to some examples; none without weights."""
    if not examples or not any(checkpoint.glob("*.safetensors")):
        return []
    from transformers import pipeline

    from contradiction.io.environment import no_model_bars

    with no_model_bars():
        classify: Any = pipeline("text-classification", model=str(checkpoint), top_k=None, device="cpu")
    answers = []
    for example in examples:
        [scores] = classify([dict(example)], truncation=True)
        rounded = {score["label"]: round(score["score"], 2) for score in scores}
        answers.append(Answer(rounded, _one_text(classify.tokenizer, example)))
    return answers


def _one_text(tokenizer: Any, example: Mapping[str, str]) -> str | None:
    text, pair = example["text"], example.get("text_pair")
    if pair is None:
        return text
    wanted = dict(tokenizer(text, pair))  # some checkpoints number the two texts
    joined = (f"{text}{(tokenizer.sep_token or '') * count}{pair}" for count in (1, 2))
    return next((one for one in joined if dict(tokenizer(one)) == wanted), None)


def detector_verdict(folder: Path, example: Mapping[str, str]) -> Verdict | None:
    """The verdict of ``ContradictionDetector`` on an example.

    None without weights, and if the model does not judge replies or cannot read the example.
    """
    if not any(folder.rglob("*.safetensors")):
        return None
    from contradiction.detector import ContradictionDetector

    try:
        verdict = ContradictionDetector.from_pretrained(folder, device="cpu", precision="fp32")(chat_of(example))
    except InputError:
        return None
    return verdict if verdict.label else None
