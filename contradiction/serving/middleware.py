"""Middleware: counts of requests in the text format of Prometheus, the token, the size of a body, and headers."""

import hmac
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

BOUNDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # seconds


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
            for bound in BOUNDS:
                self._within[name, bound] += seconds <= bound

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """All counts, and gauges by name: what they are, and their value."""
        with self._lock:
            answers, within, seconds = dict(self._answers), dict(self._within), dict(self._seconds)
        lines = ["# HELP cdconv_requests_total Answers by path and status.", "# TYPE cdconv_requests_total counter"]
        lines += [
            f'cdconv_requests_total{{path="{path}",status="{status}"}} {count}'
            for (path, status), count in sorted(answers.items())
        ]
        lines += ["# HELP cdconv_request_seconds Time to answer.", "# TYPE cdconv_request_seconds histogram"]
        for path in sorted(seconds):
            count = sum(number for (name, _), number in answers.items() if name == path)
            buckets = [(f"{bound:g}", within.get((path, bound), 0)) for bound in BOUNDS] + [("+Inf", count)]
            lines += [f'cdconv_request_seconds_bucket{{path="{path}",le="{le}"}} {number}' for le, number in buckets]
            lines.append(f'cdconv_request_seconds_sum{{path="{path}"}} {seconds[path]:.6f}')
            lines.append(f'cdconv_request_seconds_count{{path="{path}"}} {count}')
        for name, (help, value) in gauges.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP {name} {help}", f"# TYPE {name} {kind}", f"{name} {value}"]
        return "\n".join(lines) + "\n"


HEADERS = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
NOT_STORED = {"cache-control": "no-store"}
SERVICE_PATHS = ("/v1/", "/healthz", "/metrics")
NEEDED = "a token is needed: Authorization: Bearer TOKEN"
WRONG = "the token is wrong, or the header does not have the form Authorization: Bearer TOKEN"
OPEN = ("/", "/healthz", "/docs", "/openapi.json")  # answered without a token


class Guard:
    """ASGI middleware around the service.

    Args:
        body: the maximum size of a request in bytes.
        token: what a caller has to send as ``Authorization: Bearer TOKEN``; None for no token.
        metrics: counts the answers.
        elsewhere: the maximum size of a request to a path outside the service; by default the same.
    """

    def __init__(
        self, app: Any, *, body: int, metrics: Metrics, token: str | None = None, elsewhere: int | None = None
    ) -> None:
        self.app, self.metrics, self.token = app, metrics, token
        self.body, self.elsewhere = body, body if elsewhere is None else elsewhere

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started, headers, status = time.monotonic(), Headers(scope=scope), 500
        of_service = scope["path"].startswith(SERVICE_PATHS)
        most = self.body if of_service else self.elsewhere

        async def answer(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(raw=message["headers"]).update(HEADERS | (NOT_STORED if of_service else {}))
            await send(message)

        try:
            if not self._is_authorized(scope["path"], headers):
                reason = WRONG if "authorization" in headers else NEEDED
                await _refusal(401, reason, {"www-authenticate": "Bearer"})(scope, receive, answer)
            elif not _fits(headers.get("content-length"), most):
                await _too_large(most)(scope, receive, answer)
            else:
                await self._read(scope, receive, answer, most)
        finally:
            self.metrics.add(scope["path"], status, time.monotonic() - started)

    async def _read(self, scope: Any, receive: Any, send: Any, most: int) -> None:
        """Hands over the body part by part; a body without a length is refused once it is too large."""
        size, refused, started = 0, False, False

        async def bounded() -> Any:
            nonlocal size, refused
            message = await receive()
            size += len(message.get("body", b""))
            if size > most and not started:
                refused = True
                raise _TooLarge
            return message

        async def watched(message: Any) -> None:
            nonlocal started
            if not refused:  # what the service makes of a body that ends too early is not sent
                started = True
                await send(message)

        with suppress(_TooLarge):
            await self.app(scope, bounded, watched)
        if refused:
            await _too_large(most)(scope, receive, send)

    def _is_authorized(self, path: str, headers: Headers) -> bool:
        if self.token is None or path in OPEN:
            return True
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        # The name of the scheme has no case (RFC 9110, section 11.1). An empty token lets nobody in.
        if scheme.lower() != "bearer" or secret == "":
            return False
        # Headers are decoded as Latin-1. Bytes of a variable that are no UTF-8 reach Python as surrogates.
        token = self.token.encode("utf-8", "surrogateescape")
        return hmac.compare_digest(secret.encode("latin-1"), token)


class _TooLarge(Exception):
    pass


def _fits(length: str | None, most: int) -> bool:
    return length is None or (length.isdecimal() and int(length) <= most)


def _refusal(status: int, reason: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": reason}, status, {"connection": "close", **(headers or {})})


def _too_large(most: int) -> JSONResponse:
    return _refusal(413, f"the request is too large; at most {most:,} bytes are read")
