"""The page on which people label chats: two annotators and a third where they differ, or one person alone."""

import json
import logging
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.middleware.trustedhost import TrustedHostMiddleware

from contradiction import guidelines
from contradiction.paths import TEMPLATES
from contradiction.serving.api import handlers
from contradiction.serving.review_store import ANNOTATORS, CHOICES, Item, LabelStore, StoreError, earlier_replies

LOG = logging.getLogger(__name__)
HOSTS = ("127.0.0.1", "localhost", "[::1]")
Number = Annotated[int, Field(ge=0, lt=2**63)]  # as SQLite holds it


class Join(BaseModel):
    """Who labels."""

    name: str


class Label(BaseModel):
    """The label of a chat by one person."""

    model_config = ConfigDict(extra="forbid")

    person: Number
    item: Number
    label: str
    evidence: Number | None = None


def application(store: LabelStore, hosts: tuple[str, ...] = HOSTS) -> FastAPI:
    """The page and its routes.

    Args:
        store: the chats and labels.
        hosts: the names under which the page may be called, so that no other site can lead its own name to it.
    """
    app = FastAPI(title="CDConv review", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*hosts])
    page = _page(store.annotators)

    @app.get("/", response_class=HTMLResponse)
    def home() -> str:
        return page

    @app.post("/api/join")
    def join(body: Join) -> dict[str, Any]:
        person = store.join(body.name)
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
        chat = {"id": item.id, "messages": item.messages, "replies": earlier_replies(item.messages)}
        chat["unread"] = item.unread
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
