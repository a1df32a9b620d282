"""Middleware: counts of requests in the text format of Prometheus, the token, the size of a body, and headers."""

import asyncio
import hmac
import re
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from threading import Lock
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from contradiction.errors import shown

BOUNDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # seconds
Counts = Mapping[str, float]  # labels as Prometheus writes them -> a value


class Metrics:
    """Counts answers by path and status, and how long they took.

    Args:
        paths: the paths that are counted by name; all others count as ``other``, so that callers cannot add names.
    """

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._paths, self._lock = paths, Lock()
        self._answers: Counter[tuple[str, int]] = Counter()
        self._within: Counter[tuple[str, float]] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def add(self, path: str, status: int, seconds: float) -> None:
        """Counts one answer."""
        name = path if path in self._paths else "other"
        with self._lock:
            self._answers[name, status] += 1
            self._seconds[name] += seconds
            for bound in (*BOUNDS, float("inf")):
                self._within[name, bound] += seconds <= bound

    def text(self, others: Mapping[str, tuple[str, Counts]]) -> str:
        """All counts, and others by name: what they are, and their values by labels."""
        with self._lock:
            answers = {f'{{path="{path}",status="{status}"}}': n for (path, status), n in sorted(self._answers.items())}
            times: dict[str, float] = {}
            for path, seconds in sorted(self._seconds.items()):
                for bound in (*BOUNDS, float("inf")):
                    name = f"{bound:g}".replace("inf", "+Inf")
                    times[f'_bucket{{path="{path}",le="{name}"}}'] = self._within[path, bound]
                times[f'_sum{{path="{path}"}}'] = round(seconds, 6)
                times[f'_count{{path="{path}"}}'] = self._within[path, float("inf")]
        families: dict[str, tuple[str, Counts]] = {
            "cdconv_requests_total": ("Answers by path and status.", answers),
            "cdconv_request_seconds": ("Time to answer.", times),
            **others,
        }
        lines = []
        for name, (about, values) in families.items():
            kind = "histogram" if values is times else "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{labels} {value}" for labels, value in values.items()]
        return "\n".join(lines) + "\n"


HEADERS = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
NOT_STORED = {"cache-control": "no-store"}
SERVICE_PATHS = ("/v1/", "/healthz", "/metrics", "/mcp")
OF_THIS_MACHINE = re.compile(r"https?://(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?")
OPEN = ("/", "/healthz", "/docs", "/openapi.json")  # answered without a token


class Guard:
    """ASGI middleware around the service.

    Args:
        body: the maximum size of a request in bytes.
        seconds: the maximum time until all of a request to the service has come, so that a caller who never ends one
            cannot keep the service from ending.
        token: what a caller has to send as ``Authorization: Bearer TOKEN``; None for no token.
        metrics: counts the answers.
        elsewhere: the maximum size of a request to a path outside the service; by default the same.
        local: whether a page that a browser has from elsewhere is refused, because only this machine may ask. The name
            of such a page may lead to this machine. A caller with a token may be anywhere.
    """

    def __init__(
        self, app: Any, *, body: int, seconds: float, metrics: Metrics, token: str | None = None,
        elsewhere: int | None = None, local: bool = False,
    ) -> None:  # fmt: skip
        self.app, self.metrics, self.token, self.seconds = app, metrics, token, seconds
        self.body, self.elsewhere = body, body if elsewhere is None else elsewhere
        self.local = local and token is None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started, status, path = time.monotonic(), 500, scope["path"]
        of_service = path.startswith(SERVICE_PATHS)

        async def counted(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(raw=message["headers"]).update(HEADERS | (NOT_STORED if of_service else {}))
            await send(message)

        try:
            headers = Headers(scope=scope)
            self._check_origin(headers.get("origin"))
            self._check_token(path, headers)
            most, seconds = (self.body, self.seconds) if of_service else (self.elsewhere, None)
            await self.app(scope, _bounded(receive, headers, most, seconds), counted)
        except HTTPException as refusal:
            answer = JSONResponse({"error": refusal.detail}, refusal.status_code, refusal.headers)
            await answer(scope, receive, counted)
        finally:
            self.metrics.add(path, status, time.monotonic() - started)

    def _check_origin(self, origin: str | None) -> None:
        if self.local and origin is not None and not OF_THIS_MACHINE.fullmatch(origin):
            reason = f"a page of {shown(origin)} may not ask; behind a proxy, FORWARDED_ALLOW_IPS must name the proxy"
            raise HTTPException(403, reason, {"connection": "close"})

    def _check_token(self, path: str, headers: Headers) -> None:
        if self.token is None or path in OPEN:
            return
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        # Headers are decoded as Latin-1. Bytes of a variable that are no UTF-8 reach Python as surrogates.
        token = self.token.encode("utf-8", "surrogateescape")
        # The name of the scheme has no case (RFC 9110, section 11.1). An empty token lets nobody in.
        if scheme.lower() != "bearer" or not secret or not hmac.compare_digest(secret.encode("latin-1"), token):
            reason = "the token is missing or wrong; send it as Authorization: Bearer TOKEN"
            raise HTTPException(401, reason, {"www-authenticate": "Bearer", "connection": "close"})


def _bounded(receive: Any, headers: Headers, most: int, seconds: float | None) -> Any:
    """Hands over a body part by part; raises HTTPException if it is late, or too large (now if its length is given)."""
    too_large = HTTPException(
        413, f"the request is too large; at most {most:,} bytes are read", {"connection": "close"}
    )
    length = headers.get("content-length", "0")
    if not (length.isdecimal() and int(length) <= most):
        raise too_large
    size = 0
    until = None if seconds is None else time.monotonic() + seconds  # None also when all of the body is there

    async def part() -> Any:
        nonlocal size, until
        try:
            message = await asyncio.wait_for(receive(), None if until is None else until - time.monotonic())
        except TimeoutError:
            raise HTTPException(408, "the request took too long to arrive", {"connection": "close"}) from None
        if not message.get("more_body"):
            until = None
        size += len(message.get("body", b""))
        if size > most:
            raise too_large
        return message

    return part
