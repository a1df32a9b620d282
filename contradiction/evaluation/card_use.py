"""The section *Use* on the card of a model: an example, and what the model says of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contradiction.conversation import alternating
from contradiction.data.splits import CHINESE
from contradiction.errors import InputError
from contradiction.inference.base import AUTO
from contradiction.inputs.tokenization import separator_of
from contradiction.inputs.views import CONVERSATION, VIEWS, model_input
from contradiction.io.pretrained import loading
from contradiction.labels import CONTRADICTION, HISTORY, task_of
from contradiction.methods.loading import has_causal_part, method_of
from contradiction.training import record
from contradiction.training.recipe import Recipe
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


RIGHT = (HISTORY, CONTRADICTION)  # the right verdicts on the example


def example_in(languages: Sequence[str]) -> Mapping[str, str]:
    """The utterances of the example, in Chinese if a model reads it."""
    return CHINESE_EXAMPLE if CHINESE in languages else ENGLISH_EXAMPLE


def section(
    folder: Path, name: str, run: Mapping[str, Any], recipes: Sequence[Recipe], texts: Mapping[str, str]
) -> dict[str, Any]:
    """What the template needs for the section, and the examples of the widget on the Hub.

    Args:
        folder: the model folder.
        name: the name of the model.
        run: its record.
        recipes: its recipe, or those of the members of an ensemble.
        texts: the utterances of the example.
    """
    stages, members = list(run.get("stages", {})), record.members(run)
    ensemble = [part.name for part in method_of(folder).parts(folder)] if "ensemble" in run else []
    # The example uses the last stage of a hierarchical model, which reads all utterances, and the first member of an
    # ensemble that transformers can load.
    plain = [member for member in ensemble if method_of(folder / member).TRANSFORMERS]
    checkpoint = stages[-1] if stages else plain[0] if plain else ""
    recipe = recipes[0]
    columns = VIEWS[stages[-1] if stages else recipe.data.view]
    alone = bool(checkpoint or method_of(folder).TRANSFORMERS)  # whether transformers loads it
    classify = _pipeline(folder / checkpoint) if alone else None
    consistent = {column: CONSISTENT.get(text, text) for column, text in texts.items()}
    examples = [model_input(each, columns, classify.tokenizer) for each in (texts, consistent)] if classify else []
    answers = [_answer(classify, example) for example in examples]
    judges = columns[-1:] == CONVERSATION[-1:]
    chat = alternating(texts[column] for column in CONVERSATION)
    verdict = verdict_on(folder, chat) if judges else None
    return {
        "checkpoint": "/".join(filter(None, (name, checkpoint))),
        "stages": stages,
        "ensemble": [
            (name, record.recipe(member["request"]), len(member.get("soup", [])))
            for name, member in zip(ensemble, members, strict=False)
        ],
        "read": {column for each in recipes for column in VIEWS.get(each.data.view, CONVERSATION)},
        "columns": ", ".join(columns),
        "before": columns[:-1],
        "separator": separator_of(classify.tokenizer) if classify else "",
        "example": examples[0] if examples else None,
        "scores_of_example": answers[0][0] if answers else None,
        # The widget shows these scores also where no server runs the model. It loads what lies in the root of the repo,
        # which is no checkpoint for stages and ensembles.
        "widget": [
            {
                "text": text,
                "example_title": title,
                "output": [{"label": label, "score": score} for label, score in scores.items()],
            }
            for title, (scores, text) in zip(("Contradiction", "No contradiction"), answers, strict=False)
            if text and not checkpoint
        ],
        "judges": judges,
        "facade": judges and task_of(recipe.data.config) != "persona",
        "chat": chat,
        "verdict": verdict,
        "mistaken": verdict is not None and not recipe.data.target and verdict.label not in RIGHT,
    }


def _pipeline(checkpoint: Path) -> Any:
    from transformers import pipeline

    method_of(checkpoint).check_folder(checkpoint)
    with loading(checkpoint, f"{checkpoint}: no pipeline of transformers loads it"):
        return pipeline(
            "text-classification", model=str(checkpoint), top_k=None, device="cpu", trust_remote_code=False,
            model_kwargs={"use_safetensors": True},
        )  # fmt: skip


def _answer(classify: Any, example: Mapping[str, str]) -> tuple[dict[str, float], str | None]:
    """What a pipeline says of an example: the score of each label, to two digits; and the example as one text.

    The widget of the Hub sends one text. It is None if the checkpoint reads no text as the same tokens.
    """
    [scores] = classify([dict(example)], truncation=True)
    rounded = {score["label"]: round(score["score"], 2) for score in scores}
    return rounded, _one_text(classify.tokenizer, example)


def _one_text(tokenizer: Any, example: Mapping[str, str]) -> str | None:
    text, pair = example["text"], example.get("text_pair")
    if pair is None:
        return text
    wanted = dict(tokenizer(text, pair))  # some checkpoints number the two texts
    joined = (f"{text}{(tokenizer.sep_token or '') * count}{pair}" for count in (1, 2))
    return next((one for one in joined if dict(tokenizer(one)) == wanted), None)


def verdict_on(folder: Path, chat: Sequence[Mapping[str, str]]) -> Verdict | None:
    """The verdict of ``ContradictionDetector`` on a chat; None if the model cannot judge it."""
    from contradiction.detector import ContradictionDetector

    # A language model may be too large for the CPU and fp32, so it runs as for the readers of the card.
    device, precision = (None, AUTO) if has_causal_part(folder) else ("cpu", "fp32")
    try:
        verdict = ContradictionDetector.from_pretrained(folder, device=device, precision=precision)(chat)
    except InputError:
        return None
    return verdict if verdict.label else None
