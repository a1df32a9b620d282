"""A chatbot that the owner of the page connects: visitors chat with it, and the page judges its replies.

Any endpoint that speaks OpenAI's chat completions will do. Its address and its key stay with the page: a visitor sends
messages alone, and reads replies alone.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from contradiction.conversation import USER
from contradiction.errors import InputError
from contradiction.io.endpoint import Endpoint, NoAnswerError, RefusedError
from contradiction.serving.service import WATCH, Places, caller_of

PATH = "/v1/reply"
SECONDS = 30.0  # until a reply is too late
MAX_WAITING = 8  # replies that are waited for at a time, one for each visitor
MESSAGES, CHARACTERS = 60, 8000  # of a chat
LONGEST = 2000  # characters of a reply; the rest is left out
TOKENS = 300  # the maximum number of tokens of a reply
URL, MODEL, KEY = "CDCONV_BOT_URL", "CDCONV_BOT_MODEL", "CDCONV_BOT_KEY"


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
        seconds: the longest time until a reply.
        places: those of the visitors who wait for a reply.

    Raises:
        InputError: the address is not one of HTTP, or no header can hold the key in ``$CDCONV_BOT_KEY``.
    """

    url: str
    model: str
    seconds: float = SECONDS
    places: Places = field(default_factory=lambda: Places(MAX_WAITING, 1), repr=False)

    def __post_init__(self) -> None:
        key, options = os.environ.get(KEY, ""), {"max_tokens": TOKENS}
        self._endpoint = Endpoint(self.model, url=self.url, key=key, timeout=self.seconds, options=options)
        # Of its own, because requests whose visitors have gone keep their threads until they end.
        self._threads = CapacityLimiter(MAX_WAITING)

    async def reply(self, messages: list[dict[str, str]]) -> str:
        """The reply to a chat, which ends with a message of the user.

        Raises:
            HTTPException: there is no reply. The log says why; a visitor reads nothing about the endpoint.
        """
        try:
            answer = await to_thread.run_sync(
                self._endpoint.ask, messages, abandon_on_cancel=True, limiter=self._threads
            )
            why = answer.instead
        except (NoAnswerError, RefusedError) as error:
            answer, why = None, str(error)
        if answer and answer.text:
            return answer.text[:LONGEST]
        logging.getLogger(__name__).warning("%s: no reply: %s", self._endpoint.url, why)
        raise HTTPException(502, "the bot gave no reply; try again later")


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
    return Bot(url, model)


def router(bot: Bot) -> APIRouter:
    """The route by which the page asks the bot."""
    routes = APIRouter()

    @routes.post(PATH, summary="The reply of the connected bot")
    async def reply(request: Request, body: ReplyRequest) -> dict[str, str]:
        # UTF-8 cannot encode a lone surrogate.
        messages = [
            {"role": message.role, "content": message.content.encode("utf-8", "replace").decode()}
            for message in body.messages
        ]
        if not messages or messages[-1]["role"] != USER:
            raise InputError("the last message before a reply must be the user's")
        if len(messages) > MESSAGES or sum(len(message["content"]) for message in messages) > CHARACTERS:
            raise InputError(f"the bot is asked about at most {MESSAGES} messages and {CHARACTERS:,} characters")
        with bot.places.taken(caller_of(request)):
            return {"reply": await _unless(request.is_disconnected, bot.reply(messages))}

    return routes


async def _unless(gone: Callable[[], Awaitable[bool]], reply: Awaitable[str]) -> str:
    """Waits for a reply, but not after the visitor has gone."""
    work = asyncio.ensure_future(reply)
    try:
        while not (await asyncio.wait([work], timeout=WATCH))[0]:
            if await gone():
                raise HTTPException(502, "the visitor has gone")
        return work.result()
    finally:
        work.cancel()
