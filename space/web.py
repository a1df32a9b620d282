"""Between the page and the web: its headers, the first script in its HTML, and a bound on uploaded files."""

import os
from pathlib import Path
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse

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
    """ASGI middleware that refuses uploads while the files in a folder take more than ``room`` megabytes."""

    def __init__(self, app: Any, folder: str | Path, room: int = ROOM) -> None:
        self.app, self.folder, self.room = app, folder, room

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers one request."""
        if scope["type"] != "http" or scope["path"] != UPLOAD or size(self.folder) < self.room * 1_000_000:
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
