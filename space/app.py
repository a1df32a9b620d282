"""The demo page: a chat in, verdicts out. A Hugging Face Space, and what ``cdconv space`` starts."""

import os
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any

import batch
import bot as bots
import gradio as gr
from gradio.utils import get_upload_folder
from locales import ENGLISH, KEPT, LANGUAGES, examples, for_browser, pairs, text_key, translations
from pydantic import ValidationError
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from understand import FOLDER as ANALYSIS
from understand import analysis_html

from contradiction import ContradictionDetector
from contradiction.chats import readers
from contradiction.conversation import spoken_messages
from contradiction.errors import InputError
from contradiction.inference.torch_backend import use_allowed_cores
from contradiction.paths import CHECKOUT, SHIPPED
from contradiction.serving.api import PATHS, handlers, router, tools
from contradiction.serving.middleware import SERVICE_PATHS, Guard, Metrics
from contradiction.serving.predictions import ServiceError
from contradiction.serving.service import CHAT, ENDPOINTS, Endpoint, Service, answer, caller_of, explain
from contradiction.settings import Limits

MODEL = os.environ.get("CDCONV_MODEL", str(SHIPPED))
OTHERS = os.environ.get("CDCONV_OTHERS", "").split()  # more detectors, between which visitors choose
FOLDER = Path(__file__).parent
# On the Hub, a proxy with a private address passes on all requests, and its header names the visitor. Not "*": the
# server would then believe the first address in the header, which a visitor can write to pass as somebody else. With
# these networks it takes the last address that is not private, which the proxy has written.
HUB_PROXIES = "127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,::1,fc00::/7"
LIMITS = Limits(requests=512, per_caller=32)  # so that no visitor delays the others for long
SESSIONS = 500  # whose tables of verdicts are kept in memory
WAITING = 64  # requests in the queue of the tab for files; a further one is refused
LONGEST, LONGEST_PASTED = 2000, 200_000  # characters of one message, and of a pasted chat
FILE_AGE, CHECK_EVERY = 3300, 300  # seconds: the age after which files are deleted, and the time between two checks
# Named, so that no font is fetched, and Chinese before the browser's own choice, which may be the Japanese glyphs.
FONTS = ["system-ui", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", "sans-serif"]
ROOM = 500  # megabytes that the files of all visitors may take; a further upload is refused
UPLOAD = "/gradio_api/upload"
# Before Gradio starts, it is told the language; see ``LOCALES``.
SCRIPT = b"""<script>
{
  const chosen = (/(?:^|; )cdconv-language=(zh|en)/.exec(document.cookie) || [])[1];
  const own = navigator.language;
  const chinese = chosen ? chosen === "zh" : /^zh(-|$)/i.test(own);
  const locale = chinese ? (/^zh-(hant|hk|mo|tw)/i.test(own) ? "zh-TW" : "zh-CN") : "en";
  if (chosen || chinese) Object.defineProperty(navigator, "language", {get: () => locale});
}
</script>"""
# Nothing is fetched from another host, and nothing is sent to one. Gradio itself runs scripts in the page.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'self' https://huggingface.co https://*.hf.space"
)
FULL = {"error": "the page keeps too many files at the moment; try again in an hour"}


def build(services: Mapping[str, Service], bot: bots.Bot | None = None) -> gr.Blocks:
    """The page around detectors, of which a visitor can choose one by its name, and perhaps a bot to chat with.

    Its public functions are those of ``ENDPOINTS``.
    """
    texts = page_texts(services)
    shown = [_shown(name, member) for name, member in services.items()]

    def words(key: str) -> Any:
        return texts(text_key(key))

    with gr.Blocks(title=ENGLISH["title"], analytics_enabled=False, delete_cache=(CHECK_EVERY, FILE_AGE)) as page:
        gr.HTML(
            html_template='<header class="cd-theme cd-top"></header>',
            js_on_load=script("top.js"),
            page={"words": words_by_language("title", "heading", "lead", "language")},
            padding=False,
        )
        with gr.Tabs():
            with gr.Tab(words("chat tab"), id="chat"):
                gr.HTML(
                    html_template='<div class="cd-theme cd"></div>',
                    js_on_load=script("chat.js", "bot.js", "sliders.js", "controls.js"),
                    server_functions=[read_pasted],
                    page=for_page(shown, bot),
                    padding=False,
                )
            with gr.Tab(words("batch tab"), id="batch"):
                batch.draw(services, words, page)
            with gr.Tab(words("understand tab"), id="understand"):
                analysis = analysis_html(detectors=[*services])
                gr.HTML(analysis, padding=False) if analysis else gr.Markdown(words("noAnalysis"))
            with gr.Tab(words("api tab"), id="api"):
                gr.HTML(
                    html_template='<div class="cd-theme cd-code"></div>',
                    js_on_load=script("code.js"),
                    page={"words": words_by_language("code"), "model": shown[0]["model"], "chat": CHAT},
                    padding=False,
                )
        gr.Markdown(words("limits"), elem_classes="cd-limits")
        functions(services)
    return page.queue(max_size=WAITING, default_concurrency_limit=8)


def script(*names: str) -> str:
    """Files of JavaScript as one script, after what all scripts share."""
    return "".join((FOLDER / name).read_text(encoding="utf-8") for name in ("dom.js", *names))


def page_texts(services: Mapping[str, Service]) -> gr.I18n:
    """The words of the page around its detectors."""
    return translations(
        limits={"models": ", ".join(f"`{name}`" for name in services)},
        fileInfo={"chats": batch.CHATS, "size": batch.MEGABYTES},
    )


def for_page(detectors: list[dict[str, Any]], bot: bots.Bot | None) -> dict[str, Any]:
    """The data for the scripts of the chat."""
    return {
        "words": words_by_language(),
        "reasons": for_browser(),
        "kept": KEPT,
        "examples": examples(),
        "pairs": pairs(),
        "detectors": detectors,
        "bot": bot.model if bot else None,
        "most": LONGEST,
    }


def words_by_language(*beginnings: str) -> dict[str, dict[str, str]]:
    """The words by language, or those of them whose keys begin so."""
    return {
        language: {key: text for key, text in words.items() if key.startswith(beginnings or ("",))}
        for language, words in LANGUAGES.items()
    }


def _shown(name: str, service: Service) -> dict[str, Any]:
    detector, place = service.detector, Path(service.source)
    rule = detector.classifier.rule
    if CHECKOUT and place.is_relative_to(CHECKOUT):
        place = place.relative_to(CHECKOUT)
    return {
        "name": name,
        "model": name if place.is_absolute() else place.as_posix(),  # for code, without the owner's folders
        "threshold": detector.settings.threshold_for(rule),
        "opening": rule.opening,
        "prior": rule.prior,
        "curve": [[point.threshold, point.recall, point.false_alarms] for point in rule.curve],
    }


def read_pasted(text: str) -> dict[str, Any]:
    """The messages of a pasted chat that the user or the bot says, or why it is none."""
    try:
        return {"messages": spoken_messages(readers.read_pasted(str(text)[:LONGEST_PASTED]).messages)}
    except InputError as error:
        return {"error": batch.for_page(str(error))}


def functions(services: Mapping[str, Service]) -> None:
    """Adds the requests of the service as public functions of the page, for ``gradio_client``."""
    for name, endpoint in ENDPOINTS.items():
        # Not held in Gradio's queue, which knows no visitors: the service lets them take turns.
        gr.api(_function(services, name, endpoint), api_name=name, concurrency_limit=None)


def _function(services: Mapping[str, Service], name: str, endpoint: Endpoint) -> Callable[..., Any]:
    own = endpoint.body.model_fields
    fields = {field: own[field] for field in sorted(own, key=lambda field: not own[field].is_required())}

    async def function(request: gr.Request, *values: Any) -> dict[str, Any]:
        given = {field: value for field, value in zip(fields, values, strict=False) if value is not None}
        try:
            return await answer(services, name, endpoint.body.model_validate(given), caller_of(request))
        except ValidationError as error:
            raise gr.Error(explain(error.errors()), print_exception=False) from None
        except (InputError, ServiceError) as error:
            raise gr.Error(str(error), print_exception=False) from None

    # Gradio reads the parameters and their descriptions from the signature and the docstring.
    parameters = [Parameter("request", Parameter.POSITIONAL_OR_KEYWORD, annotation=gr.Request)]
    for field, info in fields.items():
        default = Parameter.empty if info.is_required() else info.default
        kind = Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(Parameter(field, kind, default=default, annotation=info.annotation))
    arguments = "\n".join(f"    {field}: {info.description}" for field, info in fields.items())
    function.__name__ = name
    function.__doc__ = f"{endpoint.summary}.\n\nArgs:\n{arguments}\n"
    function.__annotations__ |= {parameter.name: parameter.annotation for parameter in parameters}
    function.__signature__ = Signature(parameters, return_annotation=dict[str, Any])  # type: ignore[attr-defined]
    return function


def serve(
    detector: ContradictionDetector,
    host: str | None = None,
    port: int | None = None,
    others: Sequence[ContradictionDetector] = (),
    bot: bots.Bot | None = None,
    local: bool = False,
) -> tuple[gr.Blocks, str]:
    """Serves the page in the background, by default with the host and port of Gradio; returns the page and its address.

    ``local`` is that of ``Guard``.

    Raises:
        InputError: two detectors have one name.
    """
    theme = gr.themes.Base(primary_hue="blue", neutral_hue="slate", font=FONTS, font_mono=["ui-monospace", "monospace"])
    theme = theme.set(  # Gradio's blue under white, and its greys, have too little contrast
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_300",
        input_placeholder_color="*neutral_600",
        input_placeholder_color_dark="*neutral_300",
        body_background_fill="#f4f6f9",
        body_background_fill_dark="#12161d",
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_hover="*primary_800",
    )
    members = [Service(each, LIMITS) for each in (detector, *others)]
    services = {member.detector.name: member for member in members}
    if len(services) < len(members):
        names = ", ".join(member.detector.name for member in members)
        raise InputError(f"{names}: visitors choose a detector by its name, so each needs a name of its own")
    metrics = Metrics((*PATHS, bots.PATH))
    mcp, lifespan = tools(services)
    page = build(services, bot)
    plots = StaticFiles(directory=ANALYSIS, check_dir=False)
    upload = (batch.MEGABYTES + 1) * 1_000_000
    # Quiet, because the messages of Gradio are for programmers.
    _, address, _ = page.launch(
        server_name=host,
        server_port=port,
        css_paths=[FOLDER / "page.css"],
        theme=theme,
        footer_links=["api"],
        i18n=page_texts(services),
        app_kwargs={
            **({"lifespan": lifespan} if lifespan else {}),
            "routes": [
                *router(services, metrics).routes,
                *mcp,
                *(bots.router(bot).routes if bot else ()),
                Mount("/analysis", plots),
            ],
            "exception_handlers": handlers(SERVICE_PATHS),
            "middleware": [
                Middleware(
                    Guard, body=LIMITS.body, seconds=LIMITS.seconds, elsewhere=upload, metrics=metrics, local=local
                ),
                Middleware(Page),
                Middleware(Uploads, folder=get_upload_folder()),
            ],
        },
        max_file_size=batch.MEGABYTES * 1_000_000,
        state_session_capacity=SESSIONS,
        ssr_mode=False,
        quiet=True,
        prevent_thread_lock=True,
    )
    return page, address


def launch(detector: ContradictionDetector, **options: Any) -> None:
    """Serves the page until interrupted; the options are those of :func:`serve`."""
    use_allowed_cores()
    page, address = serve(detector, **options)
    print(f"The page is at {address} (Ctrl+C ends it)", flush=True)
    page.block_thread()


class Page:
    """ASGI middleware that puts ``SCRIPT`` at the start of the page's HTML, and ``POLICY`` on its answers."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers one request."""
        inserting = False

        async def insert(message: Any) -> None:
            nonlocal inserting
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                headers["content-security-policy"] = POLICY
                of_html = headers.get("content-type", "").startswith("text/html") and "content-length" in headers
                inserting = scope["path"] == "/" and of_html
                if inserting:
                    headers["content-length"] = str(int(headers["content-length"]) + len(SCRIPT))
            elif inserting:
                inserting = False
                message["body"] = message["body"].replace(b"<head>", b"<head>" + SCRIPT, 1)
            await send(message)

        await self.app(scope, receive, insert if scope["type"] == "http" else send)


class Uploads:
    """ASGI middleware that refuses uploads while the files in a folder take more than ``ROOM`` megabytes."""

    def __init__(self, app: Any, folder: str | Path) -> None:
        self.app, self.folder = app, folder

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers one request."""
        if scope["type"] != "http" or scope["path"] != UPLOAD or size(self.folder) < ROOM * 1_000_000:
            return await self.app(scope, receive, send)
        refusal = JSONResponse(FULL, 503, {"retry-after": "3600", "connection": "close"})
        await refusal(scope, receive, send)


def size(folder: str | Path) -> int:
    """The size of all files in a folder in bytes; files may be deleted at the same time."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(place) / name).lstat().st_size
            except FileNotFoundError:
                continue
    return total


if __name__ == "__main__":
    if "SPACE_ID" in os.environ:
        os.environ.setdefault("FORWARDED_ALLOW_IPS", HUB_PROXIES)
    first, *more = [ContradictionDetector.from_pretrained(name) for name in (MODEL, *OTHERS)]
    launch(first, others=more, bot=bots.from_environment())
