"""The demo page: two turns of a chat in, a verdict out. A Hugging Face Space, and what ``cdconv space`` starts."""

import html
import json
import os
import re
from collections import defaultdict
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import gradio as gr

from contradiction import ContradictionDetector, Verdict
from contradiction.conversation import ASSISTANT, USER
from contradiction.errors import InputError
from contradiction.labels import CONTRADICTION, HISTORY, INTRA, LABELS, NON_CONTRADICTION, ROLE

MODEL = os.environ.get("CDCONV_MODEL", "models/e5-small-cdconv-soup")
BOXES = ("u1", "b1", "u2", "b2")
WAITING = 64  # requests in the queue; the next one is told to come back
LONGEST = 2000  # characters of one utterance

ENGLISH = {
    "title": "CDConv: does the bot contradict itself?",
    "introduction": """# Does the bot contradict itself?
Write two turns of a Chinese chat, or pick an example. The detector judges the bot's **last** reply. Its labels, from
[CDConv](https://aclanthology.org/2022.emnlp-main.2): {labels}.""",
    "name": "*{label}*",
    "u1": "u1 · user",
    "b1": "b1 · bot",
    "u2": "u2 · user",
    "b2": "b2 · bot (judged)",
    "judge": "Judge the last reply",
    "clear": "Clear",
    "waiting": "### The verdict appears here",
    "verdict": "Verdict",
    "chat": "Chat",
    "scores": "Probability of each label",
    NON_CONTRADICTION: "No contradiction",
    CONTRADICTION: "Contradiction: with itself, with its role, or with the history",
    INTRA: "Intra-sentence: the reply contradicts itself",
    ROLE: "Role confusion: the reply takes the user's place",
    HISTORY: "History: the reply contradicts what the bot said before",
    "headline": "### {text} ({score:.0%})",
    "less probable": "Another label is more probable; the decision rule calls rare kinds from lower probabilities.",
    "nothing": "### Nothing to judge\n{reason}.",
    "refused": "### Not judged\n{reason}.",
    "unread": "**Not all was checked:** {reason}.",
    "empty": "{names} is empty; all four utterances are needed",
    "all empty": "{names} are empty; all four utterances are needed",
    "long": "{name} has {length:,} characters; at most {longest:,} are allowed",
    "comma": ", ",
    "semicolon": "; ",
    "user": "user",
    "bot": "bot",
    "judged": "judged",
    "contradicted": "contradicted",
    "examples": """### Examples
Written for this project: the same two turns, and replies of several categories. The name before a reply says what it
was written to be, the one behind the arrow what this detector says of it. **They were chosen** so that the detector
that comes with the project gets one of each category right; it gets others wrong, here as elsewhere.""",
    "limits": """### Limits
This page runs `{model}`, which reads {columns}. CDConv holds two-turn chats with two Chinese chatbots of 2022; on other
bots, longer chats or other languages the answers are guesses. Mistakes are many: the model's card has the numbers.
CDConv, and so what is trained on it, is not for commercial use (CC BY-NC 4.0).""",
}
CHINESE = {
    "title": "CDConv：机器人自相矛盾了吗？",
    "introduction": """# 机器人自相矛盾了吗？
写两轮中文对话，或点选一个例子。检测器判断机器人的**最后一句**回复。标签取自 \
[CDConv](https://aclanthology.org/2022.emnlp-main.2)：{labels}。""",
    "name": "*{label}*（{gloss}）",
    "u1": "u1 · 用户",
    "b1": "b1 · 机器人",
    "u2": "u2 · 用户",
    "b2": "b2 · 机器人（被判断的回复）",
    "judge": "判断最后一句回复",
    "clear": "清空",
    "waiting": "### 判断结果显示在这里",
    "verdict": "判断结果",
    "chat": "对话",
    "scores": "各标签的概率",
    NON_CONTRADICTION: "无矛盾",
    CONTRADICTION: "有矛盾：与自身、与角色或与历史矛盾",
    INTRA: "句内矛盾：回复自相矛盾",
    ROLE: "角色混淆：回复站到了用户的位置上",
    HISTORY: "历史矛盾：回复与机器人先前说过的话矛盾",
    "headline": "### {text}（{score:.0%}）",
    "less probable": "另一个标签的概率更高；但对少见的类别，决策规则在概率较低时也会判定。",
    "nothing": "### 无从判断\n{reason}。",
    "refused": "### 未作判断\n{reason}。",
    "unread": "**并非全部都检查过**：{reason}。",
    "empty": "{names} 为空；四句话都要填写",
    "all empty": "{names} 为空；四句话都要填写",
    "long": "{name} 有 {length:,} 个字符；最多 {longest:,} 个",
    "comma": "、",
    "semicolon": "；",
    "user": "用户",
    "bot": "机器人",
    "judged": "被判断",
    "contradicted": "与被判断的回复矛盾",
    "examples": """### 例子
为本项目编写：前三句相同，回复分属不同类别。回复前面的名称是编写时想要的类别，箭头后面是这个检测器的判断。\
**例子经过挑选**，使项目自带的检测器在每个类别上都判对一个；其余的例子它会判错一些，在别处也会。""",
    "limits": """### 局限
本页运行 `{model}`，它的输入是 {columns}。CDConv 是与 2022 年两个中文聊天机器人的两轮对话；对其他机器人、更长的对话或\
其他语言，结果只是猜测。错误不少，具体数字见模型卡。CDConv 以及用它训练的模型不得用于商业用途（CC BY-NC 4.0）。""",
}
GLOSSES = {
    NON_CONTRADICTION: "无矛盾",
    CONTRADICTION: "有矛盾",
    INTRA: "句内矛盾",
    ROLE: "角色混淆",
    HISTORY: "历史矛盾",
}
# What the library says of texts that were not read, in Chinese.
REASONS = {
    r"the reply (?=holds|is)": "这句回复",
    r"(b1) (?=holds|is)": r"\1 ",
    r"holds no words": "没有文字",
    r"holds no word that the model knows": "没有模型认识的词",
    r"is not in Chinese, the language that the model was trained on": "不是中文，而模型只用中文训练过",
    r"the first (\d+) tokens (.*) were not read": r"\2最前面的 \1 个词元没有读",
    r"only the last tokens (.*) were read": r"\1只读了最后的词元",
    r"of the history and of the reply": "对话历史和回复",
    r"of the history": "对话历史",
    r": the model reads at most (\d+)": r"（模型最多读 \1 个）",
    r"; ": "；",
}
# The forms of Chinese that Gradio's own words come in; it shows all other visitors English or another language.
LOCALES = ("zh-CN", "zh-TW")
# The contexts of the embedded sample to show, by what is said first.
SHOWN = ("动作这么溜，你打篮球多少年了？", "我刚看完一部科幻片，太震撼了", "我是重庆人，一天不吃辣就难受")
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

# On a phone the boxes and the examples lie far from the verdict. An emptied chat is no verdict.
SHOW_VERDICT = """(chat) => {
  if (chat !== "") document.getElementById("verdict").scrollIntoView({behavior: "smooth", block: "nearest"})
}"""
# Screen readers say the verdict when it comes. The title is not left to Gradio: it would stand untranslated, as a key,
# where a link to the page is previewed.
START = """() => {
  document.getElementById("verdict").setAttribute("aria-live", "polite");
  if (document.documentElement.lang.startsWith("zh")) document.title = "%s"
}"""
CLEAR = """() => {
  document.querySelector("#u1 textarea").focus();
  return %s
}"""


def words_of(request: gr.Request) -> dict[str, str]:
    """The words in the language in which Gradio shows the page to this visitor."""
    first = request.headers.get("accept-language", "").split(",")[0].split(";")[0].strip()
    return CHINESE if first in LOCALES else ENGLISH


def translations(detector: ContradictionDetector) -> gr.I18n:
    """The words of the page around a detector, by language; the browser chooses."""
    names, columns = detector.labels, ", ".join(detector.columns)

    def filled(words: dict[str, str]) -> dict[str, str]:
        labels = words["comma"].join(words["name"].format(label=name, gloss=GLOSSES.get(name, name)) for name in names)
        return words | {
            "introduction": words["introduction"].format(labels=labels),
            "limits": words["limits"].format(model=Path(detector.name).name, columns=columns),
        }

    return gr.I18n(en=filled(ENGLISH), **{locale: filled(CHINESE) for locale in LOCALES})


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


def chat_of(*utterances: str) -> list[dict[str, Any]]:
    """The messages of u1, b1, u2, b2."""
    return [{"role": role, "content": text} for role, text in zip((USER, ASSISTANT) * 2, utterances, strict=True)]


def check(utterances: Sequence[str], words: dict[str, str]) -> None:
    """Raises InputError, in these words, for utterances that the page does not take; the message names all of them."""
    named = dict(zip(BOXES, utterances, strict=True))
    empty = [name for name, text in named.items() if not text]
    problems = []
    if empty:
        problems.append(words["empty" if len(empty) == 1 else "all empty"].format(names=words["comma"].join(empty)))
    problems += [
        words["long"].format(name=name, length=len(text), longest=LONGEST)
        for name, text in named.items()
        if len(text) > LONGEST
    ]
    if problems:
        raise InputError(words["semicolon"].join(problems))


def chat_html(messages: list[dict[str, str]], verdict: Verdict, words: dict[str, str] = ENGLISH) -> str:
    """The chat as bubbles; the judged reply and what it contradicts are outlined, and named for who sees no colour."""
    marks = {index: ("clash", words["contradicted"]) for index in verdict.evidence}
    marks[len(messages) - 1] = ({True: "clash", False: "fine", None: ""}[verdict.is_contradiction], words["judged"])
    bubbles = []
    for index, (column, message) in enumerate(zip(BOXES, messages, strict=True)):
        speaker = "user" if message["role"] == USER else "bot"
        mark, note = marks.get(index, ("", ""))
        caption = " · ".join(filter(None, (column, words[speaker], note)))
        bubbles.append(f'<p class="{speaker} {mark}"><small>{caption}</small>{html.escape(message["content"])}</p>')
    return f'<div class="chat" lang="zh-CN">{"".join(bubbles)}</div>'


def because(verdict: Verdict, words: dict[str, str]) -> str:
    """Why not all was checked; messages go by the names of their boxes."""
    reason = str(verdict.reason).replace("messages[1]", "b1")
    if words is CHINESE:
        for said, chinese in REASONS.items():
            reason = re.sub(said, chinese, reason)
    return reason


def headline(verdict: Verdict, words: dict[str, str] = ENGLISH) -> str:
    """The verdict in one sentence, what else decided it than its probability, and what was not read."""
    if verdict.label is None or verdict.score is None:
        reason = because(verdict, words)
        return words["nothing"].format(reason=reason[:1].upper() + reason[1:])
    lines = [words["headline"].format(text=words.get(verdict.label, verdict.label), score=verdict.score)]
    if verdict.score < max(verdict.scores.values()):
        lines.append(words["less probable"])
    if not verdict.checked:
        lines.append(words["unread"].format(reason=because(verdict, words)))
    return "\n\n".join(lines)


def build(detector: ContradictionDetector) -> gr.Blocks:
    """The page around a detector; its one public endpoint is /judge.

    Raises:
        InputError: it does not judge replies.
    """
    detector.batch([])  # says so before anything is drawn

    def answer(utterances: Sequence[str | None], words: dict[str, str]) -> tuple[str, dict[str, float], str]:
        texts = [(text or "").strip() for text in utterances]
        check(texts, words)
        messages = chat_of(*texts)
        verdict = detector(messages)
        return headline(verdict, words), dict(verdict.scores), chat_html(messages, verdict, words)

    def judge(u1: str, b1: str, u2: str, b2: str) -> tuple[str, dict[str, float], str]:
        """Judges the reply b2 of the chat u1 b1 u2 b2: a headline, the probability of each label, the chat as HTML."""
        try:
            return answer((u1, b1, u2, b2), ENGLISH)
        except InputError as error:
            raise gr.Error(str(error), print_exception=False) from None

    def show(u1: str, b1: str, u2: str, b2: str, request: gr.Request) -> tuple[str, dict[str, float], str]:
        """The same in the visitor's language; what is wrong with the boxes stands where the verdict would."""
        words = words_of(request)
        try:
            return answer((u1, b1, u2, b2), words)
        except InputError as error:
            return words["refused"].format(reason=error), {}, ""

    words = translations(detector)
    with gr.Blocks(title=ENGLISH["title"], analytics_enabled=False) as page:
        gr.Markdown(words("introduction"))
        with gr.Row():
            with gr.Column():
                utterances = [gr.Textbox(label=words(name), max_lines=6, elem_id=name) for name in BOXES]
                with gr.Row():
                    button = gr.Button(words("judge"), variant="primary", scale=3, min_width=160)
                    clear = gr.Button(words("clear"), scale=1, min_width=80)
            with gr.Column():
                verdict = gr.Markdown(words("waiting"), label=words("verdict"), elem_id="verdict")
                chat = gr.HTML(label=words("chat"), elem_id="chat")
                scores = gr.Label(label=words("scores"), show_heading=False, elem_id="scores")
        outputs = [verdict, scores, chat]
        gr.on([], judge, utterances, outputs, api_name="judge")
        triggers = [button.click, utterances[-1].submit]
        judged = gr.on(triggers, show, utterances, outputs, api_visibility="private", show_progress_on=scores)
        judged.then(js=SHOW_VERDICT)
        chat.change(inputs=chat, js=SHOW_VERDICT)
        nothing = json.dumps([*[""] * len(BOXES), str(words("waiting")), {}, ""])
        clear.click(outputs=[*utterances, *outputs], js=CLEAR % nothing)
        page.load(js=START % CHINESE["title"])
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
        gr.Markdown(words("limits"))
    return page.queue(max_size=WAITING, default_concurrency_limit=2)


def launch(detector: ContradictionDetector, host: str | None = None, port: int | None = None) -> None:
    """Serves the page until interrupted; what is not given is left to Gradio."""
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
        i18n=translations(detector),
        quiet=True,
        prevent_thread_lock=True,
    )
    print(f"The page is at {address} (Ctrl+C ends it)", flush=True)
    page.block_thread()


if __name__ == "__main__":
    launch(ContradictionDetector.from_pretrained(MODEL))
