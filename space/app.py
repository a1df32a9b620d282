"""The demo page: a chat in, verdicts out. A Hugging Face Space, and what ``cdconv space`` starts."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import batch
import gradio as gr
import samples
from locales import CHINESE, ENGLISH, Page, for_browser, named, translations
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from understand import FOLDER as ANALYSIS
from understand import analysis_html

from contradiction import ContradictionDetector
from contradiction.chats import formats
from contradiction.conversation import read_message
from contradiction.errors import InputError
from contradiction.serving.api import PATHS, handlers, router
from contradiction.serving.middleware import SERVICE_PATHS, Guard, Metrics
from contradiction.serving.service import Busy, Cancelled, Late, Service

MODEL = os.environ.get("CDCONV_MODEL", "models/e5-small-cdconv-soup")
FOLDER = Path(__file__).parent
SCRIPTS = ("chat.js", "controls.js")  # of the chat, in this order
WAITING = 64  # requests in the queue of the tab for files; the next one is told to come back
LONGEST, LONGEST_PASTED = 2000, 200_000  # characters of one message, and of a pasted chat
KEPT = 3600  # seconds until an uploaded file is deleted
# Named, so that no font is fetched, and Chinese before the browser's own choice, which may be the Japanese glyphs.
FONTS = ["system-ui", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", "sans-serif"]
CURL = """curl http://127.0.0.1:7860/v1/scan -H 'content-type: application/json' -d '{"messages": [
  {"role": "user", "content": "你养猫吗？"}, {"role": "assistant", "content": "养了一只橘猫"},
  {"role": "user", "content": "它叫什么名字？"}, {"role": "assistant", "content": "我没养过猫呀"}]}'"""
TITLE = """() => { if (/^zh(-|$)/i.test(navigator.language)) document.title = "%s" }"""
Chat = list[dict[str, str]]


def build(service: Service) -> gr.Blocks:
    """The page around a detector. Its public functions are /judge, /scan, /rerank and /check."""
    texts = spoken(service.detector)

    def words(key: str) -> Any:
        return texts(named(key))

    with gr.Blocks(title=ENGLISH["title"], analytics_enabled=False, delete_cache=(KEPT, KEPT)) as page:
        gr.HTML(
            html_template='<header class="cd-top"></header>',
            js_on_load=(FOLDER / "top.js").read_text(encoding="utf-8"),
            page={"words": {"en": ENGLISH, "zh": CHINESE}},
        )
        with gr.Tabs():
            with gr.Tab(words("chat tab"), id="chat"):
                gr.HTML(
                    html_template='<div class="cd"></div>',
                    js_on_load="".join((FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS),
                    server_functions=[read_pasted],
                    page=for_page(service.detector),
                )
            with gr.Tab(words("batch tab"), id="batch"):
                batch.draw(service, words, page)
            with gr.Tab(words("understand tab"), id="understand"):
                analysis = analysis_html()
                gr.HTML(analysis) if analysis else gr.Markdown(words("noAnalysis"))
            with gr.Tab(words("api tab"), id="api"):
                gr.Markdown(words("apiText"))
        gr.Markdown(words("limits"))
        page.load(js=TITLE % CHINESE["title"])
        functions(service)
    return page.queue(max_size=WAITING, default_concurrency_limit=8)


def spoken(detector: ContradictionDetector) -> gr.I18n:
    """The words of the page around a detector."""
    return translations(
        limits={"model": Path(detector.name).name, "columns": ", ".join(detector.columns)},
        fileInfo={"chats": batch.CHATS, "size": batch.MEGABYTES},
        apiText={"curl": CURL},
    )


def for_page(detector: ContradictionDetector) -> dict[str, Any]:
    """What the scripts of the chat are told."""
    rule = detector.classifier.rule
    name = Path(detector.name)
    return {
        "words": {"en": ENGLISH, "zh": CHINESE},
        "reasons": for_browser(),
        "examples": samples.examples(),
        "pairs": samples.pairs(),
        "model": name.name if name.is_absolute() else str(name),
        "cut": detector.settings.threshold_for(rule),
        "prior": rule.prior,
        "curve": [[point.threshold, point.recall, point.false_alarms] for point in rule.curve],
        "most": LONGEST,
    }


def read_pasted(text: str) -> dict[str, Any]:
    """The messages of a pasted chat that the user or the bot says, or why it is none."""
    try:
        messages = formats.read_pasted(str(text)[:LONGEST_PASTED])
        read = [read_message(message, f"messages[{index}]") for index, message in enumerate(messages)]
    except InputError as error:
        return {"error": str(error)}
    return {"messages": [{"role": message.role, "content": message.text} for message in read if not message.skipped]}


def functions(service: Service) -> None:
    """Adds the public functions of the page, for ``gradio_client`` and MCP."""

    def judge(messages: Chat, threshold: float | None = None, prior: float | None = None) -> dict[str, Any]:
        """Judges the last reply of a Chinese chat: does the bot contradict itself, its role, or what it said before?

        Args:
            messages: the chat, a list of {"role": "user" or "assistant", "content": text}.
            threshold: a reply is called a contradiction from this probability on; by default the detector's own.
            prior: the share of contradictions among the bot's replies, such as 0.1.
        """
        return _answered(service, lambda: service.judge(messages, threshold=threshold, prior=prior))

    def scan(messages: Chat, threshold: float | None = None, prior: float | None = None) -> list[dict[str, Any]]:
        """Judges every reply of a Chinese chat; a verdict for each, in order.

        Args:
            messages: the chat, a list of {"role": "user" or "assistant", "content": text}.
            threshold: a reply is called a contradiction from this probability on; by default the detector's own.
            prior: the share of contradictions among the bot's replies, such as 0.1.
        """
        return _answered(service, lambda: service.scan(messages, threshold=threshold, prior=prior))

    def rerank(messages: Chat, candidates: list[str]) -> list[dict[str, Any]]:
        """Orders the replies that a bot could give, the least likely contradiction first.

        Args:
            messages: the chat so far, which ends with a message of the user.
            candidates: the replies.
        """
        return _answered(service, lambda: service.rerank(messages, candidates))

    def check(facts: list[str], reply: str, question: str = "") -> dict[str, Any]:
        """Judges a reply against sentences that are true of the bot.

        Args:
            facts: sentences in the bot's own words.
            reply: the reply.
            question: what the user said before it.
        """
        return _answered(service, lambda: service.check(facts, reply, question))

    for function in (judge, scan, rerank, check):
        gr.api(function, api_name=function.__name__, concurrency_limit=32)


def _answered(service: Service, call: Any) -> Any:
    try:
        with service.place():
            return service.answer(call)
    except (InputError, Busy, Late, Cancelled) as error:
        raise gr.Error(str(error), print_exception=False) from None


def serve(detector: ContradictionDetector, host: str | None = None, port: int | None = None) -> tuple[gr.Blocks, str]:
    """Serves the page in the background; what is not given is left to Gradio. Returns the page and its address."""
    theme = gr.themes.Base(primary_hue="blue", neutral_hue="slate", font=FONTS, font_mono=["ui-monospace", "monospace"])
    theme = theme.set(  # white on the default blue has too little contrast
        button_primary_background_fill="*primary_700", button_primary_background_fill_hover="*primary_800"
    )
    service = Service(detector)
    metrics = Metrics(PATHS)
    page = build(service)
    plots = StaticFiles(directory=ANALYSIS, check_dir=False)
    upload = (batch.MEGABYTES + 1) * 1_000_000
    # Quiet, because Gradio advises what only a programmer can do.
    _, address, _ = page.launch(
        server_name=host,
        server_port=port,
        css_paths=[FOLDER / "page.css"],
        theme=theme,
        footer_links=["api"],
        i18n=spoken(detector),
        app_kwargs={
            "routes": [*router(service, metrics).routes, Mount("/analysis", plots)],
            "exception_handlers": handlers(SERVICE_PATHS),
            "middleware": [
                Middleware(Guard, body=service.limits.body, elsewhere=upload, metrics=metrics),
                Middleware(Page),
            ],
        },
        max_file_size=batch.MEGABYTES * 1_000_000,
        ssr_mode=False,
        mcp_server=find_spec("mcp") is not None,
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
