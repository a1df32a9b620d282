"""The example on a model card, and the model's real output for it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from contradiction.errors import InputError
from contradiction.labels import CONTRADICTION, HISTORY
from contradiction.verdict import Verdict

EXAMPLE = {
    "u1": "你养猫吗？", "b1": "养了一只橘猫", "u2": "它叫什么名字？", "b2": "我没养过猫呀",
    "premise": "他喜欢吃辣", "hypothesis": "他不吃辣",
}  # fmt: skip
RIGHT = (HISTORY, CONTRADICTION)
CHAT = [
    {"role": role, "content": EXAMPLE[column]}
    for column, role in zip(("u1", "b1", "u2", "b2"), ("user", "assistant") * 2, strict=True)
]


def text_pair(columns: Sequence[str], separator: str) -> dict[str, str]:
    """The example as input of a checkpoint that reads these columns."""
    *context, last = (EXAMPLE[column] for column in columns)
    return {"text": separator.join(context), "text_pair": last} if context else {"text": last}


def pipeline_says(checkpoint: Path, example: Mapping[str, str]) -> dict[str, float] | None:
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


def detector_says(folder: Path) -> Verdict | None:
    """The verdict of ``ContradictionDetector`` on the example.

    None without weights, and where the model does not judge replies or cannot read the example.
    """
    if not any(folder.rglob("*.safetensors")):
        return None
    from contradiction.detector import ContradictionDetector

    try:
        verdict = ContradictionDetector.from_pretrained(folder, device="cpu")(CHAT)
    except InputError:
        return None
    return verdict if verdict.label else None


def code_on_the_hub(card: str, names: Iterable[str], repo_id: str, place: str = "") -> str:
    """The text of a card with the Hub id in its Python code instead of the folder name.

    Args:
        card: the text.
        names: the names of the folder; code with another model stays.
        repo_id: the repo to which the folder is pushed.
        place: the folder of the card in the repo, for instance ``history``. Libraries cannot load a model from a folder
            of a repo, so the code fetches the repo first.
    """
    own = "|".join(re.escape(name) for name in names)
    named = re.compile(rf'(model=|from_pretrained\()"(?:{own})(/[^"]*)?"')

    def where(match: re.Match[str]) -> str:
        inner = "/".join(filter(None, (place, (match[2] or "").strip("/"))))
        return f'{match[1]}snapshot_download("{repo_id}") + "/{inner}"' if inner else f'{match[1]}"{repo_id}"'

    def block(match: re.Match[str]) -> str:
        code = named.sub(where, match[2])
        first = "from huggingface_hub import snapshot_download\n" if code.count("snapshot_download(") else ""
        return f"{match[1]}{first}{code}{match[3]}"

    return re.sub(r"(```python\n)(.*?)(```)", block, card, flags=re.DOTALL)
