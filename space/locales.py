"""The language of the page: the one that a visitor chose, or else that of the browser; and the headers of the page."""

import re
import tomllib
from pathlib import Path
from typing import Any

import gradio as gr
from starlette.datastructures import MutableHeaders

_TABLES = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
ENGLISH: dict[str, str] = _TABLES["en"]
CHINESE: dict[str, str] = _TABLES["zh"]
REASONS: dict[str, str] = _TABLES["reasons"]
COOKIE = "cdconv-language"  # the language that a visitor chose: zh or en
# The two forms of Chinese that Gradio's own words come in. To a browser set to zh, zh-HK or zh-Hans-CN Gradio shows
# English, because it looks up the exact name. So the page tells Gradio the nearest of the two before it starts.
LOCALES = ("zh-CN", "zh-TW")
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


def words_of(request: gr.Request) -> dict[str, str]:
    """The words in the language in which this visitor reads the page."""
    chosen = request.cookies.get(COOKIE) if request.cookies else None
    if chosen in ("zh", "en"):
        return CHINESE if chosen == "zh" else ENGLISH
    first = request.headers.get("accept-language", "").split(",")[0].split(";")[0].strip()
    return CHINESE if re.match(r"zh(-|$)", first, flags=re.IGNORECASE) else ENGLISH


def in_words(reason: str, words: dict[str, str]) -> str:
    """What the library says in English, in the visitor's language where it is known there."""
    if words is CHINESE:
        for said, chinese in REASONS.items():
            reason = re.sub(said, chinese, reason)
    return reason


def for_browser() -> list[tuple[str, str]]:
    """``REASONS`` as JavaScript writes them."""
    return [(said, re.sub(r"\\(\d)", r"$\1", chinese)) for said, chinese in REASONS.items()]


def named(key: str) -> str:
    """The key of a text among Gradio's own texts, some of which have the same names."""
    return f"cdconv {key}"


def translations(**values: dict[str, Any]) -> gr.I18n:
    """The words of the page by language, under the keys that :func:`named` gives; the browser chooses.

    Args:
        values: key -> what stands in the blanks of its text.
    """

    def filled(words: dict[str, str]) -> dict[str, str]:
        texts = words | {name: words[name].format(**given) for name, given in values.items()}
        return {named(key): text for key, text in texts.items()}

    return gr.I18n(en=filled(ENGLISH), **{locale: filled(CHINESE) for locale in LOCALES})


class Page:
    """ASGI middleware that puts ``SCRIPT`` at the start of the page's HTML, and ``POLICY`` on its answers.

    Args:
        app: the application that serves the page.
    """

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
                inserting = headers.get("content-type", "").startswith("text/html") and "content-length" in headers
                if inserting:
                    headers["content-length"] = str(int(headers["content-length"]) + len(SCRIPT))
            elif inserting:
                inserting = False
                message["body"] = message["body"].replace(b"<head>", b"<head>" + SCRIPT, 1)
            await send(message)

        await self.app(scope, receive, insert if scope["type"] == "http" and scope["path"] == "/" else send)
