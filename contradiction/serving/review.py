"""A review: which chats of a file people label, and the page on which they do."""

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.middleware.trustedhost import TrustedHostMiddleware

from contradiction import guidelines
from contradiction.chats.chunks import Entry
from contradiction.chats.names import SYSTEM, Speakers
from contradiction.chats.readers import open_file
from contradiction.conversation import Messages
from contradiction.data import labelled
from contradiction.errors import InputError
from contradiction.io.files import read_objects
from contradiction.labels import LABELS
from contradiction.paths import TEMPLATES
from contradiction.serving.api import handlers
from contradiction.serving.review_store import ANNOTATORS, CHOICES, Item, LabelStore, StoreError, earlier_replies

LOG = logging.getLogger(__name__)
HOSTS = ("127.0.0.1", "localhost", "[::1]")
SEED = 13  # the same sample each time
Number = Annotated[int, Field(ge=0)]


class Label(BaseModel):
    """The label of a chat by one person."""

    model_config = ConfigDict(extra="forbid")

    person: Number
    item: Number
    label: str
    evidence: Number | None = None


def application(store: LabelStore, hosts: tuple[str, ...] = HOSTS) -> FastAPI:
    """The page and its routes, called only under the names ``hosts``, so that no other site can lead its own to it."""
    app = FastAPI(title="CDConv review", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*hosts])
    page = _page(store.annotators)

    @app.get("/", response_class=HTMLResponse)
    def home() -> str:
        return page

    @app.post("/api/join")
    def join(name: Annotated[str, Body(embed=True)]) -> dict[str, Any]:
        person = store.join(name)
        return {"person": person, "third": person > ANNOTATORS}

    @app.get("/api/next")
    def following(person: Number, after: Number | None = None) -> dict[str, Any]:
        return _shown(store, person, store.next(person, after))

    @app.get("/api/item")
    def item(person: Number, id: Number) -> dict[str, Any]:
        return _shown(store, person, store.item(id))

    @app.post("/api/label")
    def label(body: Label) -> dict[str, Any]:
        store.put(body.person, body.item, body.label, body.evidence)
        return {"saved": True}

    async def unavailable(request: Request, error: Exception) -> Response:
        LOG.error("%s", error)  # not sent, because it names the file
        return JSONResponse({"error": "the labels cannot be read or written now; the log says why"}, 503)

    for kind, handler in {**handlers(), StoreError: unavailable}.items():
        app.add_exception_handler(kind, handler)
    return app


def _shown(store: LabelStore, person: int, item: Item | None) -> dict[str, Any]:
    """A chat as the page gets it: without the labels of others, and without a mark on spot checks."""
    done, total = store.progress(person)
    chat = None
    if item:
        replies = earlier_replies(item.messages)
        chat = {"id": item.id, "messages": item.messages, "replies": replies, "unread": item.unread}
    return {"item": chat, "done": done, "total": total}


def _page(annotators: int) -> str:
    values = {
        "annotators": annotators,
        "choices": CHOICES,
        "task": guidelines.TASK,
        "labels": guidelines.MEANINGS,
        "rules": guidelines.RULES,
    }
    # No text may end the script in which it stands.
    content = json.dumps(values, ensure_ascii=False).replace("<", "\\u003c")
    return (TEMPLATES / "review.html").read_text(encoding="utf-8").replace("{{ values }}", content)


def chats_of(
    file: Path,
    on_note: Callable[[str], Any],
    encoding: str | None,
    speakers: Speakers,
    verdicts: Path | None,
    sample: int,
) -> list[tuple[str, Messages]]:
    """The names and messages of the chats of a file that hold a reply, or of a sample of them by their ``verdicts``.

    Raises:
        InputError: there is no such chat, or one without a verdict.
    """
    chats = open_file(file, encoding=encoding, speakers=speakers)
    entries = []
    for entry in chats:
        if not entry.turns:
            on_note(f"{chats.place(entry.number)}: {entry.error or 'the chat holds no message by the assistant'}")
        else:
            entries.append(entry)
    for note in chats.notes:
        on_note(note)
    if not entries:
        raise InputError(f"{file}: holds no chat to review")
    if verdicts:
        return choose(entries, verdicts, sample, chats.key)
    return [(entry.name, _with_instructions(entry.messages, entry.instructions)) for entry in entries]


def spot_checks_of(file: Path, speakers: Speakers) -> list[tuple[str, Messages, str]]:
    """The names, messages and labels of chats whose label is known; raises InputError for other labels than four."""
    known = labelled.read(file, speakers)
    if labelled.task_of(known) != "4-class":
        raise InputError(f"{file}: spot checks have one of the labels {', '.join(LABELS['4-class'])}")
    return [(chat.id, _with_instructions(chat.messages, chat.instructions), chat.label) for chat in known]


def _with_instructions(messages: Messages, instructions: str) -> Messages:
    """A chat as people see it: with what the bot was told beside the messages, such as a persona."""
    return [{"role": SYSTEM, "content": instructions}, *messages] if instructions else messages


def _is_verdict(value: object) -> bool:
    if not isinstance(value, Mapping) or not {"probability", "contradiction"} <= value.keys():
        return False
    probability, called, reply = value["probability"], value["contradiction"], value.get("reply", [])
    is_number = isinstance(probability, float | int) and 0 <= probability <= 1
    is_decided = (probability is None or is_number) and isinstance(called, bool | None)
    return is_decided and isinstance(reply, list) and all(isinstance(index, int) and index >= 0 for index in reply)


def choose(entries: Sequence[Entry], verdicts: str | Path, count: int, key: str) -> list[tuple[str, Messages]]:
    """A third each of the surest contradictions, the most doubtful replies and random others, in the order of the file.

    ``verdicts`` is the file that ``cdconv detect --out`` wrote for the entries, which are usable chats. With ``--scan``
    it has a verdict on every reply, so a chat may be chosen several times, each time up to another reply. Its name then
    ends with the index of that reply.

    Raises:
        InputError: a chat has no verdict, or a line is not one of ``cdconv detect --out``.
    """
    # An input may have several answers.
    found: dict[Any, list[tuple[str, list[Mapping[str, Any]]]]] = defaultdict(list)
    for where, record in read_objects(Path(verdicts), key):
        of_chat, name = record.get("verdicts", [record]), record.get("id")
        is_named = isinstance(record[key], int) and isinstance(name, str | int | float | None)
        if not (is_named and isinstance(of_chat, list) and all(map(_is_verdict, of_chat))):
            raise InputError(f"{where}: holds no verdict of `detect --out`")
        found[record[key], name].append((where, of_chat))
    replies: list[tuple[str, Entry, int]] = []  # the chats are cut once they are chosen
    own: list[Mapping[str, Any]] = []
    for entry in entries:
        if not (of_entry := found[entry.number, entry.id]):
            raise InputError(
                f"{verdicts}: has no verdict on {key} {entry.number}; it must be what `detect --out` wrote for the file"
            )
        where, of_chat = of_entry.pop(0)
        for number, verdict in enumerate(of_chat, start=1):
            last = (verdict.get("reply") or [len(entry.messages) - 1])[-1]
            if last >= len(entry.messages):
                raise InputError(f"{where}: reply {last}; its chat has {len(entry.messages)} messages, counted from 0")
            # A label of an earlier reply is none of the whole chat.
            name = entry.name if number == len(of_chat) else f"{entry.name}/{last}"
            replies.append((name, entry, last))
            own.append(verdict)
    chances = {place: one["probability"] for place, one in enumerate(own) if one["probability"] is not None}
    boundary = _boundary([own[place] for place in chances])
    places = set(sorted(chances, key=lambda place: -chances[place])[: count // 3])
    doubtful = sorted(chances.keys() - places, key=lambda place: (abs(chances[place] - boundary), place))
    places |= set(doubtful[: count // 3])
    rest = sorted({*range(len(own))} - places)
    places |= set(Random(SEED).sample(rest, min(len(rest), count - len(places))))
    chosen = (replies[place] for place in sorted(places))
    return [(name, _with_instructions(entry.messages[: last + 1], entry.instructions)) for name, entry, last in chosen]


def _boundary(verdicts: Sequence[Mapping[str, Any]]) -> float:
    """The middle between the lowest probability that was called a contradiction and the highest that was not."""
    called = [verdict["probability"] for verdict in verdicts if verdict["contradiction"]]
    others = [verdict["probability"] for verdict in verdicts if not verdict["contradiction"]]
    return float((min(called, default=1.0) + max(others, default=0.0)) / 2)
