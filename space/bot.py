"""A chatbot that the owner of the page connects: visitors chat with it, and the page judges its replies.

Any endpoint that speaks OpenAI's chat completions will do. Its address and its key stay with the page: a visitor sends
messages alone, and reads replies alone.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from contradiction.conversation import USER
from contradiction.errors import InputError
from contradiction.serving.endpoints import caller_of
from contradiction.serving.service import WATCH

PATH = "/v1/reply"
SECONDS = 30.0  # until a reply is too late
MAX_WAITING = 8  # replies that are waited for at a time, one for each visitor
BYTES = 256 * 1024  # of an answer
MESSAGES, CHARACTERS = 60, 8000  # of a chat
LONGEST = 2000  # characters of a reply; the rest is left out
TOKENS = 300  # the maximum number of tokens of a reply
URL, MODEL, KEY = "CDCONV_BOT_URL", "CDCONV_BOT_MODEL", "CDCONV_BOT_KEY"


class NoReplyError(Exception):
    """The bot gave no reply that could be read; the message says why, without its address."""


class Message(BaseModel):
    """A message."""

    model_config = ConfigDict(extra="forbid")

    role: str = Field(pattern="^(user|assistant)$")
    content: str


class ReplyRequest(BaseModel):
    """A chat that the bot is to answer."""

    model_config = ConfigDict(extra="forbid")

    messages: list[Message]


@dataclass
class Bot:
    """A chatbot behind an endpoint.

    Attributes:
        url: the address of the endpoint, including ``/v1``.
        model: the model that the endpoint serves; also the name that visitors see.
        key: is sent as ``Authorization: Bearer KEY``; None for no key.
        seconds: the longest time until a reply.

    Raises:
        InputError: the address is not one of HTTP, or no header can hold the key.
    """

    url: str
    model: str
    key: str | None = field(default=None, repr=False)
    seconds: float = SECONDS
    _asking: set[str] = field(default_factory=set, repr=False)

    def __post_init__(self) -> None:
        try:
            address = httpx.URL(self.url)
        except httpx.InvalidURL:
            address = httpx.URL()
        if address.scheme not in ("http", "https") or not address.host:
            raise InputError(f"bot {self.url!r}: not an address of HTTP, such as http://127.0.0.1:8000/v1")
        if self.key and not (self.key.isascii() and self.key.isprintable()):
            raise InputError(f"{KEY}: holds a character that no header can hold; a key is letters, digits and signs")

    async def reply(self, messages: list[dict[str, str]]) -> str:
        """The reply to a chat, which ends with a message of the user.

        Raises:
            NoReplyError: there is no reply.
        """
        request = {"model": self.model, "messages": messages, "max_tokens": TOKENS, "stream": False}
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        # Without redirects and without proxies from the environment, so that no other address is contacted.
        client = httpx.AsyncClient(timeout=self.seconds, headers=headers, follow_redirects=False, trust_env=False)
        try:
            async with asyncio.timeout(self.seconds), client:  # a limit for all parts of the answer together
                async with client.stream("POST", f"{self.url.rstrip('/')}/chat/completions", json=request) as answer:
                    if answer.status_code != 200:
                        raise NoReplyError(f"the bot answered with status {answer.status_code}")
                    body = b""
                    async for part in answer.aiter_bytes():
                        body += part
                        if len(body) > BYTES:
                            raise NoReplyError("the bot answered more than can be read")
        except (TimeoutError, httpx.TimeoutException):
            raise NoReplyError(f"the bot did not answer within {self.seconds:g} seconds") from None
        except httpx.HTTPError:
            raise NoReplyError("the bot cannot be reached") from None
        return _content(body)[:LONGEST]

    @asynccontextmanager
    async def place(self, visitor: str) -> AsyncIterator[None]:
        """A place among the visitors who wait for a reply; raises an HTTPException of status 503 if there is none."""
        if visitor in self._asking or len(self._asking) >= MAX_WAITING:
            raise HTTPException(503, "the bot is busy; try again soon", {"retry-after": "2"})
        self._asking.add(visitor)
        try:
            yield
        finally:
            self._asking.discard(visitor)


def from_environment() -> Bot | None:
    """The bot that the variables name; None if there is none.

    Raises:
        InputError: one of the variables is missing.
    """
    url, model = os.environ.get(URL), os.environ.get(MODEL)
    if not url and not model:
        return None
    if not url or not model:
        raise InputError(f"{MODEL if url else URL} is not set; a bot needs {URL} and {MODEL}")
    return Bot(url, model, os.environ.get(KEY) or None)


def router(bot: Bot) -> APIRouter:
    """The route by which the page asks the bot."""
    routes = APIRouter()

    @routes.post(PATH, summary="The reply of the connected bot")
    async def reply(request: Request, body: ReplyRequest) -> dict[str, str]:
        messages = [{"role": message.role, "content": _encodable(message.content)} for message in body.messages]
        if not messages or messages[-1]["role"] != USER:
            raise InputError("the last message before a reply must be the user's")
        if len(messages) > MESSAGES or sum(len(message["content"]) for message in messages) > CHARACTERS:
            raise InputError(f"the bot is asked about at most {MESSAGES} messages and {CHARACTERS:,} characters")
        async with bot.place(caller_of(request)):
            try:
                return {"reply": await _unless(request.is_disconnected, bot.reply(messages))}
            except NoReplyError as error:
                raise HTTPException(502, str(error)) from None

    return routes


async def _unless(gone: Callable[[], Awaitable[bool]], reply: Awaitable[str]) -> str:
    """Waits for a reply, but not after the visitor has gone."""
    work = asyncio.ensure_future(reply)
    try:
        while not (await asyncio.wait([work], timeout=WATCH))[0]:
            if await gone():
                raise NoReplyError("the visitor has gone")
        return work.result()
    finally:
        work.cancel()


def _content(body: bytes) -> str:
    """The text of a chat completion; raises NoReplyError if it has none."""
    try:
        text: Any = json.loads(body)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise NoReplyError("the bot answered something that is not a chat completion") from None
    if not isinstance(text, str) or not text.strip():
        raise NoReplyError("the bot answered without text")
    return _encodable(text.strip())


def _encodable(text: str) -> str:
    """The same text, with a question mark for each lone surrogate, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode("utf-8")
