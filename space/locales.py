"""Which browsers get the page in Chinese: all whose first language is Chinese, in whatever form."""

import re
from typing import Any

import gradio as gr
from starlette.datastructures import MutableHeaders

# The two forms of Chinese that Gradio's own words come in. To a browser set to zh, zh-HK or zh-Hans-CN Gradio shows
# English, because it looks up the exact name. So the page tells Gradio the nearest of the two before it starts.
LOCALES = ("zh-CN", "zh-TW")
SCRIPT = b"""<script>
if (/^zh(-|$)/i.test(navigator.language) && !["zh-CN", "zh-TW"].includes(navigator.language)) {
  const locale = /^zh-(hant|hk|mo|tw)/i.test(navigator.language) ? "zh-TW" : "zh-CN";
  Object.defineProperty(navigator, "language", {get: () => locale});
}
</script>"""


def prefers_chinese(request: gr.Request) -> bool:
    """Whether the first language of the visitor's browser is Chinese."""
    first = request.headers.get("accept-language", "").split(",")[0].split(";")[0].strip()
    return re.match(r"zh(-|$)", first, flags=re.IGNORECASE) is not None


class ChineseLocale:
    """ASGI middleware that puts ``SCRIPT`` at the start of the page's HTML.

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
                inserting = headers.get("content-type", "").startswith("text/html") and "content-length" in headers
                if inserting:
                    headers["content-length"] = str(int(headers["content-length"]) + len(SCRIPT))
            elif inserting:
                inserting = False
                message["body"] = message["body"].replace(b"<head>", b"<head>" + SCRIPT, 1)
            await send(message)

        await self.app(scope, receive, insert if scope["type"] == "http" and scope["path"] == "/" else send)
