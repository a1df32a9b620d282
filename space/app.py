"""The demo page: two turns of a chat in, a verdict out. A Hugging Face Space, and what ``cdconv space`` starts."""

import html
import json
import os
from pathlib import Path
from typing import Any

import gradio as gr

from contradiction import ContradictionDetector, Verdict
from contradiction.errors import InputError
from contradiction.labels import HISTORY, INTRA, LABELS, NON_CONTRADICTION, ROLE
from contradiction.sources import SAMPLE

MODEL = os.environ.get("CDCONV_MODEL", "runs/demo")
COLUMNS = ("u1", "b1", "u2", "b2")
WAITING = 64  # requests in the queue; the next one is told to come back
LONGEST = 2000  # characters of one utterance

HEADLINES = {
    NON_CONTRADICTION: "No contradiction",
    "contradiction": "The reply contradicts itself, its role, or the history",
    INTRA: "Intra-sentence: the reply contradicts itself",
    ROLE: "Role confusion: the reply takes the user's place",
    HISTORY: "History: the reply contradicts what the bot said before",
}
INTRODUCTION = """# Does the bot contradict itself?
Write two turns of a Chinese chat, or pick an example. The detector judges the bot's **last** reply against all that was
said before, with the four labels of [CDConv](https://aclanthology.org/2022.emnlp-main.2): no contradiction,
*intra-sentence*, *role confusion*, *history*."""
LIMITS = """Trained on two-turn chats with two Chinese chatbots of 2022; on other bots, longer chats or other languages
its answers are guesses. Its mistakes are many: the model's card has the numbers. Not for commercial use (CC BY-NC
4.0)."""
CSS = """
.chat {display: flex; flex-direction: column; gap: .5rem}
.chat p {margin: 0; padding: .5rem .8rem; border-radius: .9rem; max-width: 85%; line-height: 1.5}
.chat .user {align-self: flex-end; background: var(--primary-100); color: #111}
.chat .bot {align-self: flex-start; background: var(--neutral-200); color: #111}
.chat .clash {outline: 3px solid #dc2626}
.chat .fine {outline: 3px solid #16a34a}
"""


def examples() -> list[list[str]]:
    """Conversations of the embedded sample: for each category in turn the first of a context, two rounds."""
    rows = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    chosen: list[list[str]] = []
    seen: set[str] = set()
    for _ in range(2):
        for label in range(len(LABELS["4-class"])):
            row = next(row for row in rows if row["label"] == label and row["u1"] not in seen)
            seen.add(row["u1"])
            chosen.append([row[column] for column in COLUMNS])
    return chosen


def chat_html(messages: list[dict[str, str]], verdict: Verdict) -> str:
    """The chat as bubbles; the judged reply and what it contradicts are outlined."""
    marks = dict.fromkeys(verdict.evidence, "clash")
    if verdict.is_contradiction is not None:
        marks[len(messages) - 1] = "clash" if verdict.is_contradiction else "fine"
    bubbles = (
        f'<p class="{"user" if message["role"] == "user" else "bot"} {marks.get(index, "")}">'
        f"{html.escape(message['content'])}</p>"
        for index, message in enumerate(messages)
    )
    return f'<div class="chat">{"".join(bubbles)}</div>'


def headline(verdict: Verdict) -> str:
    """The verdict in one sentence, and what was not read."""
    if verdict.label is None or verdict.score is None:
        return f"### Nothing to judge\n{verdict.reason}."
    text = f"### {HEADLINES[verdict.label]} ({verdict.score:.0%})"
    return text if verdict.checked else f"{text}\n**Not all was checked:** {verdict.reason}."


def build(detector: ContradictionDetector) -> gr.Blocks:
    """The page around a detector."""

    def judge(u1: str, b1: str, u2: str, b2: str) -> tuple[str, dict[str, float], str]:
        """Judges the reply b2 of the chat u1 b1 u2 b2: a headline, the probability of each label, the chat as HTML."""
        roles = ("user", "assistant", "user", "assistant")
        messages: list[dict[str, Any]] = [
            {"role": role, "content": (text or "").strip()} for role, text in zip(roles, (u1, b1, u2, b2), strict=True)
        ]
        for name, message in zip(COLUMNS, messages, strict=True):
            if not message["content"]:
                raise gr.Error(f"{name} is empty; all four utterances are needed", title="Not judged")
            if len(message["content"]) > LONGEST:
                raise gr.Error(f"{name} has more than {LONGEST} characters", title="Not judged")
        try:
            verdict = detector(messages)
        except InputError as error:
            raise gr.Error(str(error), title="Not judged") from error
        return headline(verdict), dict(verdict.scores), chat_html(messages, verdict)

    with gr.Blocks(title="CDConv: does the bot contradict itself?") as page:
        gr.Markdown(INTRODUCTION)
        with gr.Row():
            with gr.Column():
                utterances = [
                    gr.Textbox(label=label, max_length=LONGEST, lines=1)
                    for label in (
                        "u1 · user · 用户",
                        "b1 · bot · 机器人",
                        "u2 · user · 用户",
                        "b2 · bot · 机器人 (judged)",
                    )
                ]
                button = gr.Button("Judge the last reply", variant="primary")
            with gr.Column():
                verdict = gr.Markdown("### The verdict appears here", elem_id="verdict")
                scores = gr.Label(label="Probability of each label", num_top_classes=4)
                chat = gr.HTML()
        gr.Examples(examples(), utterances, label="Examples, written for this project", examples_per_page=8)
        gr.Markdown(f"{LIMITS} Model: `{Path(detector.name).name}`.")
        gr.on(
            [button.click, utterances[-1].submit],
            judge,
            utterances,
            [verdict, scores, chat],
            api_name="judge",
            concurrency_limit=2,
        )
    return page.queue(max_size=WAITING)


def launch(detector: ContradictionDetector, **address: Any) -> None:
    """Serves the page until interrupted; ``host`` and ``port`` are left to Gradio where not given."""
    build(detector).launch(
        server_name=address.get("host"),
        server_port=address.get("port"),
        css=CSS,
        theme=gr.themes.Soft(),
        footer_links=["api"],
    )


if __name__ == "__main__":
    launch(ContradictionDetector.from_pretrained(MODEL))
