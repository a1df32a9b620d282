"""The demo page: two turns of a chat in, a verdict out. A Hugging Face Space, and what ``cdconv space`` starts."""

import html
import json
import os
from collections import defaultdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import gradio as gr

from contradiction import ContradictionDetector, Verdict
from contradiction.conversation import ASSISTANT, USER
from contradiction.errors import InputError
from contradiction.labels import CONTRADICTION, HISTORY, INTRA, LABELS, NON_CONTRADICTION, ROLE

MODEL = os.environ.get("CDCONV_MODEL", "models/e5-small-cdconv")
BOXES = {
    "u1": "u1 · user · 用户",
    "b1": "b1 · bot · 机器人",
    "u2": "u2 · user · 用户",
    "b2": "b2 · bot · 机器人 (judged)",
}
WAITING = 64  # requests in the queue; the next one is told to come back
LONGEST = 2000  # characters of one utterance

HEADLINES = {
    NON_CONTRADICTION: "No contradiction",
    CONTRADICTION: "Contradiction: with itself, with its role, or with the history",
    INTRA: "Intra-sentence: the reply contradicts itself",
    ROLE: "Role confusion: the reply takes the user's place",
    HISTORY: "History: the reply contradicts what the bot said before",
}
INTRODUCTION = """# Does the bot contradict itself?
Write two turns of a Chinese chat, or pick an example. The detector judges the bot's **last** reply. Its labels, from
[CDConv](https://aclanthology.org/2022.emnlp-main.2): {labels}."""
EXAMPLES = """### Examples
Written for this project: the same two turns, and replies of several categories. The name before a reply says what it
was written to be, the one behind the arrow what this detector says of it. **They were chosen** so that the detector
that comes with the project gets one of each category right; it gets others wrong, here as elsewhere."""
# The contexts of the embedded sample to show, by what is said first.
SHOWN = ("我是小学语文老师，教三年级", "你身体好点了吗，还咳不咳？", "明天就要去一家大公司面试了，我好紧张呀")
LIMITS = """### Limits
This page runs `{model}`, which reads {columns}. CDConv holds two-turn chats with two Chinese chatbots of 2022; on other
bots, longer chats or other languages the answers are guesses. Mistakes are many: the model's card has the numbers.
CDConv, and so what is trained on it, is not for commercial use (CC BY-NC 4.0)."""
CSS = """
.chat {display: flex; flex-direction: column; gap: .9rem; padding: .25rem}
.chat p {margin: 0; padding: .5rem .8rem; border-radius: .9rem; max-width: 88%; max-height: 16rem; overflow-y: auto;
  line-height: 1.5; overflow-wrap: anywhere; white-space: pre-wrap; color: var(--body-text-color)}
.chat small {display: block; font-size: .75rem; opacity: .75}
.chat .user {align-self: flex-end; background: var(--primary-100)}
.chat .bot {align-self: flex-start; background: var(--neutral-200)}
.dark .chat .user {background: var(--primary-900)}
.dark .chat .bot {background: var(--neutral-700)}
.chat .clash {outline: 3px solid #dc2626}
.chat .fine {outline: 3px solid #16a34a}
.dark .chat .clash {outline-color: #f87171}
.dark .chat .fine {outline-color: #4ade80}
#verdict {scroll-margin: .5rem}
#chat:not(:has(.chat)), footer .divider {display: none}
.examples .gallery {flex-direction: column; align-items: flex-start; text-align: left; font-size: var(--text-md)}
.examples .label svg {display: none}
"""
# Named, so that no font is fetched, and Chinese before the browser's own choice, which may be the Japanese glyphs.
FONTS = ["system-ui", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", "sans-serif"]

# On a phone the examples lie far below the verdict.
SHOW_VERDICT = "() => document.getElementById('verdict').scrollIntoView({behavior: 'smooth', block: 'nearest'})"


def examples() -> list[tuple[tuple[str, ...], dict[str, str]]]:
    """The contexts shown (u1, b1, u2), each with a reply of every category that the sample has, by the category."""
    names = LABELS["4-class"]
    replies: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for line in (files("contradiction") / "sample.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        replies[row["u1"], row["b1"], row["u2"]].setdefault(names[row["label"]], row["b2"])
    shown = [next(context for context in replies if context[0] == first) for first in SHOWN]
    return [
        (context, {name: replies[context][name] for name in names if name in replies[context]}) for context in shown
    ]


def chat_of(*utterances: str) -> list[dict[str, Any]]:
    """The messages of u1, b1, u2, b2."""
    return [{"role": role, "content": text} for role, text in zip((USER, ASSISTANT) * 2, utterances, strict=True)]


def check(name: str, text: str) -> None:
    """Raises InputError for an utterance that the page does not take."""
    if not text:
        raise InputError(f"{name} is empty; all four utterances are needed")
    if len(text) > LONGEST:
        raise InputError(f"{name} has {len(text):,} characters; at most {LONGEST:,} are read")


def chat_html(messages: list[dict[str, str]], verdict: Verdict) -> str:
    """The chat as bubbles; the judged reply and what it contradicts are outlined, and named for who sees no colour."""
    marks = {index: ("clash", "contradicted") for index in verdict.evidence}
    marks[len(messages) - 1] = ({True: "clash", False: "fine", None: ""}[verdict.is_contradiction], "judged")
    bubbles = []
    for index, (column, message) in enumerate(zip(BOXES, messages, strict=True)):
        speaker = "user" if message["role"] == "user" else "bot"
        mark, note = marks.get(index, ("", ""))
        caption = " · ".join(filter(None, (column, speaker, note)))
        bubbles.append(f'<p class="{speaker} {mark}"><small>{caption}</small>{html.escape(message["content"])}</p>')
    return f'<div class="chat" lang="zh-CN">{"".join(bubbles)}</div>'


def headline(verdict: Verdict) -> str:
    """The verdict in one sentence, and what was not read."""
    if verdict.label is None or verdict.score is None:
        return f"### Nothing to judge\n{str(verdict.reason).capitalize()}."
    text = f"### {HEADLINES[verdict.label]} ({verdict.score:.0%})"
    return text if verdict.checked else f"{text}\n**Not all was checked:** {verdict.reason}."


def build(detector: ContradictionDetector) -> gr.Blocks:
    """The page around a detector; its one public endpoint is /judge."""

    def judge(u1: str, b1: str, u2: str, b2: str) -> tuple[str, dict[str, float], str]:
        """Judges the reply b2 of the chat u1 b1 u2 b2: a headline, the probability of each label, the chat as HTML."""
        messages = chat_of(*((text or "").strip() for text in (u1, b1, u2, b2)))
        try:
            for name, message in zip(BOXES, messages, strict=True):
                check(name, message["content"])
            verdict = detector(messages)
        except InputError as error:
            raise gr.Error(str(error), print_exception=False) from None
        return headline(verdict), dict(verdict.scores), chat_html(messages, verdict)

    with gr.Blocks(title="CDConv: does the bot contradict itself?", analytics_enabled=False) as page:
        gr.Markdown(INTRODUCTION.format(labels=", ".join(f"*{label}*" for label in detector.labels)))
        with gr.Row():
            with gr.Column():
                utterances = [gr.Textbox(label=label, max_lines=6) for label in BOXES.values()]
                button = gr.Button("Judge the last reply", variant="primary")
            with gr.Column():
                verdict = gr.Markdown("### The verdict appears here", label="Verdict", elem_id="verdict")
                chat = gr.HTML(label="Chat", elem_id="chat")
                scores = gr.Label(label="Probability of each label", show_heading=False, elem_id="scores")
        outputs = [verdict, scores, chat]
        triggers = [button.click, utterances[-1].submit]
        gr.on(triggers, judge, utterances, outputs, api_name="judge", show_progress_on=scores)
        chat.change(js=SHOW_VERDICT)
        gr.Markdown(EXAMPLES)
        with gr.Row(elem_classes="examples"):
            for context, replies in examples():
                verdicts = detector.batch([chat_of(*context, reply) for reply in replies.values()])
                with gr.Column():
                    gr.Examples(
                        [[*context, reply] for reply in replies.values()],
                        utterances,
                        outputs,
                        judge,
                        label=" → ".join(context),
                        example_labels=[
                            f"{name}: {reply} → {verdict.label}"
                            for (name, reply), verdict in zip(replies.items(), verdicts, strict=True)
                        ],
                        run_on_click=True,
                        cache_examples=False,
                        api_visibility="private",
                    )
        gr.Markdown(LIMITS.format(model=Path(detector.name).name, columns=", ".join(detector.columns)))
    return page.queue(max_size=WAITING, default_concurrency_limit=2)


def launch(detector: ContradictionDetector, host: str | None = None, port: int | None = None) -> None:
    """Serves the page until interrupted; what is not given is left to Gradio."""
    theme = gr.themes.Soft(font=FONTS, font_mono=["ui-monospace", "monospace"]).set(
        background_fill_primary="*neutral_50",  # Soft's own, which set() forgets
        block_title_text_color="*primary_700",
        block_label_text_color="*primary_700",
        input_border_width="1px",
    )
    build(detector).launch(server_name=host, server_port=port, css=CSS, theme=theme, footer_links=["api"])


if __name__ == "__main__":
    launch(ContradictionDetector.from_pretrained(MODEL))
