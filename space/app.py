"""The demo page: a chat in, verdicts out. A Hugging Face Space, and what ``cdconv space`` starts."""

import json
import os
from collections import defaultdict
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import bubbles
import gradio as gr
from judging import Scanned, chat_of, judge, scan, shown
from locales import ChineseLocale
from starlette.middleware import Middleware
from wording import BOXES, CHINESE, ENGLISH, plain, translations, words_of

from contradiction import ContradictionDetector
from contradiction.errors import InputError
from contradiction.labels import LABELS

MODEL = os.environ.get("CDCONV_MODEL", "models/e5-small-cdconv-soup")
WAITING = 64  # requests in the queue; the next one is told to come back
ONE = "detector"  # what is asked for waits in one line: two chats at a time are judged, of all visitors
THRESHOLD = 0.6  # of a whole chat, where the rule that was fitted on two turns calls too many
# The contexts of the embedded sample to show, by what is said first.
SHOWN = ("动作这么溜，你打篮球多少年了？", "我刚看完一部科幻片，太震撼了", "我是重庆人，一天不吃辣就难受")
CHATS = Path(__file__).with_name("chats.txt")  # parted by empty lines
CSS = (
    bubbles.CSS
    + """
#verdict, #verdicts {scroll-margin: .5rem}
.shown:not(:has(.chat)), footer .divider {display: none}
.examples .gallery {flex-direction: column; align-items: flex-start; text-align: left; font-size: var(--text-md)}
.examples .label svg, .chats .label {display: none}
.chats .gallery {flex-flow: row wrap}
"""
)
# Named, so that no font is fetched, and Chinese before the browser's own choice, which may be the Japanese glyphs.
FONTS = ["system-ui", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", "sans-serif"]

# On a phone the boxes and the examples lie far from the verdict. An emptied chat is no verdict.
SHOW = """(chat) => {
  if (chat !== "") document.getElementById("%s").scrollIntoView({behavior: "smooth", block: "nearest"})
}"""
# Screen readers say the verdict when it comes. The title is not left to Gradio: it would stand untranslated, as a key,
# where a link to the page is previewed.
START = """() => {
  for (const id of ["verdict", "verdicts"]) document.getElementById(id)?.setAttribute("aria-live", "polite");
  if (document.documentElement.lang.startsWith("zh")) document.title = "%s"
}"""
CLEAR = """() => {
  document.querySelector("#%s textarea").focus();
  return %s
}"""


def examples() -> list[tuple[tuple[str, ...], dict[str, str]]]:
    """The contexts shown (u1, b1, u2), each with a reply of every category that the sample has, by the category."""
    names = LABELS["4-class"]
    replies: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for line in (files("contradiction.data") / "sample.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        replies[row["u1"], row["b1"], row["u2"]].setdefault(names[row["label"]], row["b2"])
    shown = [next(context for context in replies if context[0] == first) for first in SHOWN]
    return [
        (context, {name: replies[context][name] for name in names if name in replies[context]}) for context in shown
    ]


def build(detector: ContradictionDetector) -> gr.Blocks:
    """The page around a detector; its public endpoints are /judge and /scan.

    Raises:
        InputError: it does not judge replies.
    """
    detector.batch([])  # says so before anything is drawn
    words = translations(detector.labels, detector.columns, Path(detector.name).name)
    with gr.Blocks(title=ENGLISH["title"], analytics_enabled=False) as page:
        gr.Markdown(words("introduction"))
        with gr.Tabs():
            with gr.Tab(words("two turns"), id="turns"):
                two_turns(detector, words)
            with gr.Tab(words("whole chat"), id="chat") as tab:
                whole_chat(detector, words)
        page.load(js=START % CHINESE["title"])
        tab.select(js=START % CHINESE["title"])  # before that there is nothing in it
        gr.Markdown(words("limits"))
    return page.queue(max_size=WAITING, default_concurrency_limit=2)


def two_turns(detector: ContradictionDetector, words: gr.I18n) -> None:
    """Draws four boxes, the verdict on the last of them, and examples."""

    def answer(u1: str, b1: str, u2: str, b2: str) -> tuple[str, dict[str, float], str]:
        """Judges the reply b2 of the chat u1 b1 u2 b2: a headline, the probability of each label, the chat as HTML."""
        try:
            return judge(detector, (u1, b1, u2, b2), ENGLISH)
        except InputError as error:
            raise gr.Error(str(error), print_exception=False) from None

    def show(u1: str, b1: str, u2: str, b2: str, request: gr.Request) -> tuple[str, dict[str, float], str]:
        """The same in the visitor's language; what is wrong with the boxes stands where the verdict would."""
        spoken = words_of(request)
        try:
            return judge(detector, (u1, b1, u2, b2), spoken)
        except InputError as error:
            return spoken["refused"].format(reason=plain(str(error))), {}, ""

    with gr.Row():
        with gr.Column():
            utterances = [gr.Textbox(label=words(name), max_lines=6, elem_id=name) for name in BOXES]
            with gr.Row():
                button = gr.Button(words("judge"), variant="primary", scale=3, min_width=160)
                clear = gr.Button(words("clear"), scale=1, min_width=80)
        with gr.Column():
            verdict = gr.Markdown(words("waiting"), label=words("verdict"), elem_id="verdict")
            chat = gr.HTML(label=words("chat"), elem_id="chat", elem_classes="shown")
            scores = gr.Label(label=words("scores"), show_heading=False, elem_id="scores")
    outputs = [verdict, scores, chat]
    gr.on([], answer, utterances, outputs, api_name="judge", concurrency_id=ONE)
    triggers = [button.click, utterances[-1].submit]
    judged = gr.on(
        triggers, show, utterances, outputs, api_visibility="private", show_progress_on=scores, concurrency_id=ONE
    )
    judged.then(js=SHOW % "verdict")
    chat.change(inputs=chat, js=SHOW % "verdict")
    nothing = json.dumps([*[""] * len(BOXES), str(words("waiting")), {}, ""])
    clear.click(outputs=[*utterances, *outputs], js=CLEAR % ("u1", nothing))
    gr.Markdown(words("examples"))
    with gr.Row(elem_classes="examples"):
        for context, replies in examples():
            verdicts = detector.batch([chat_of(*context, reply) for reply in replies.values()])
            with gr.Column():
                gr.Examples(
                    [[*context, reply] for reply in replies.values()],
                    utterances,
                    outputs,
                    show,
                    label=" → ".join(context),
                    example_labels=[
                        f"{name}: {reply} → {verdict.label}"
                        for (name, reply), verdict in zip(replies.items(), verdicts, strict=True)
                    ],
                    run_on_click=True,
                    cache_examples=False,
                    api_visibility="private",
                )


def whole_chat(detector: ContradictionDetector, words: gr.I18n) -> None:
    """Draws a box for a chat of any length, a verdict on each of its replies, and examples."""

    def answer(chat: str, threshold: float | None) -> list[dict[str, Any]]:
        """Judges every reply of a chat, given as on the page: a verdict each, with the fields of the library's."""
        try:
            if not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
                raise InputError(f"threshold {threshold}; it must be a number between 0 and 1")
            return [asdict(each) for each in scan(detector, chat, ENGLISH).called(threshold)]
        except InputError as error:
            raise gr.Error(str(error), print_exception=False) from None

    def show(chat: str, threshold: float, request: gr.Request) -> tuple[str, str, Scanned | None]:
        """A summary and the chat as HTML, in the visitor's language, and the chat as it was read."""
        spoken = words_of(request)
        try:
            found = scan(detector, chat, spoken)
            return *shown(found, threshold, spoken), found
        except InputError as error:
            return spoken["refused"].format(reason=plain(str(error))), "", None

    def again(chat: Scanned | None, threshold: float, request: gr.Request) -> Any:
        """The same for another threshold."""
        return shown(chat, threshold, words_of(request)) if chat else (gr.skip(), gr.skip())

    with gr.Row():
        with gr.Column():
            text = gr.Textbox(
                label=words("paste"),
                info=words("paste info"),
                lines=12,
                max_lines=24,
                elem_id="text",
            )
            threshold = gr.Slider(
                0.1, 0.9, THRESHOLD, step=0.05, label=words("threshold"), info=words("threshold info")
            )
            with gr.Row():
                button = gr.Button(words("scan"), variant="primary", scale=3, min_width=160)
                clear = gr.Button(words("clear"), scale=1, min_width=80)
        with gr.Column():
            verdicts = gr.Markdown(words("scan waiting"), elem_id="verdicts")
            chat = gr.HTML(label=words("chat"), elem_id="whole", elem_classes="shown")
    scanned = gr.State()
    outputs = [verdicts, chat, scanned]
    asked = [text, threshold]
    number = gr.Number(THRESHOLD, visible=False)
    gr.on([], answer, [text, number], gr.JSON(visible=False), api_name="scan", concurrency_id=ONE)
    judged = button.click(show, asked, outputs, api_visibility="private", show_progress_on=verdicts, concurrency_id=ONE)
    judged.then(js=SHOW % "verdicts")
    threshold.change(
        again, [scanned, threshold], outputs[:2], api_visibility="private", show_progress="hidden", queue=False
    )
    nothing = json.dumps(["", str(words("scan waiting")), ""])
    clear.click(outputs=[text, verdicts, chat], js=CLEAR % ("text", nothing))
    clear.click(lambda: None, outputs=scanned, api_visibility="private", queue=False)
    gr.Markdown(words("scan examples"))
    chats = CHATS.read_text(encoding="utf-8").strip().split("\n\n")
    with gr.Row(elem_classes=["examples", "chats"]):
        clicked = gr.Examples(
            [[each, THRESHOLD] for each in chats],
            asked,
            outputs,
            show,
            example_labels=[each.partition("\n")[0] for each in chats],
            run_on_click=True,
            cache_examples=False,
            api_visibility="private",
        )
    clicked.load_input_event.then(js=SHOW % "verdicts")


def serve(detector: ContradictionDetector, host: str | None = None, port: int | None = None) -> tuple[gr.Blocks, str]:
    """Serves the page in the background; what is not given is left to Gradio. Returns the page and its address."""
    theme = gr.themes.Soft(font=FONTS, font_mono=["ui-monospace", "monospace"]).set(
        background_fill_primary="*neutral_50",  # Soft's own, which set() forgets
        block_title_text_color="*primary_700",
        block_label_text_color="*primary_700",
        input_border_width="1px",
        button_secondary_background_fill_dark="*neutral_700",  # Soft's own is louder than its primary one
        button_secondary_background_fill_hover_dark="*neutral_600",
    )
    page = build(detector)
    # Quiet, because Gradio advises what only a programmer can do.
    _, address, _ = page.launch(
        server_name=host,
        server_port=port,
        css=CSS,
        theme=theme,
        footer_links=["api"],
        i18n=translations(detector.labels, detector.columns, Path(detector.name).name),
        app_kwargs={"middleware": [Middleware(ChineseLocale)]},
        quiet=True,
        prevent_thread_lock=True,
    )
    return page, address


def launch(detector: ContradictionDetector, host: str | None = None, port: int | None = None) -> None:
    """Serves the page until interrupted."""
    page, address = serve(detector, host, port)
    print(f"The page is at {address} (Ctrl+C ends it)", flush=True)
    page.block_thread()


if __name__ == "__main__":
    launch(ContradictionDetector.from_pretrained(MODEL))
