"""The page on which people label chats: two annotators, and a third where they differ."""

import json
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict
from starlette.middleware.trustedhost import TrustedHostMiddleware

from contradiction import guidelines
from contradiction.errors import InputError
from contradiction.paths import TEMPLATES
from contradiction.serving.review_store import ANNOTATORS, CHOICES, Item, LabelStore, earlier_replies


class Join(BaseModel):
    """Who labels."""

    name: str


class Label(BaseModel):
    """The label of a chat by one person."""

    model_config = ConfigDict(extra="forbid")

    person: int
    item: int
    label: str
    evidence: int | None = None


def application(store: LabelStore, hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")) -> FastAPI:
    """The page and its routes.

    Args:
        store: the chats and labels.
        hosts: the names under which the page may be called, so that no other site can lead its own name to it.
    """
    app = FastAPI(title="CDConv review", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*hosts])
    page = _page()

    @app.get("/", response_class=HTMLResponse)
    def home() -> str:
        return page

    @app.post("/api/join")
    def join(body: Join) -> dict[str, Any]:
        person = store.join(body.name)
        return {"person": person, "third": person > ANNOTATORS}

    @app.get("/api/next")
    def following(person: int, after: int | None = None) -> dict[str, Any]:
        return _shown(store, person, store.next(person, after))

    @app.get("/api/item")
    def item(person: int, id: int) -> dict[str, Any]:
        return _shown(store, person, store.item(id))

    @app.post("/api/label")
    def label(body: Label) -> dict[str, Any]:
        store.put(body.person, body.item, body.label, body.evidence)
        return {"saved": True}

    async def refuse(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, 422)

    app.add_exception_handler(InputError, refuse)
    app.add_exception_handler(RequestValidationError, refuse)
    return app


def _shown(store: LabelStore, person: int, item: Item | None) -> dict[str, Any]:
    """A chat as the page gets it: without the labels of others, and without a mark on spot checks."""
    done, total = store.progress(person)
    chat = None
    if item:
        chat = {"id": item.id, "messages": item.messages, "replies": earlier_replies(item.messages)}
    return {"item": chat, "done": done, "total": total}


def _page() -> str:
    values = {
        "choices": CHOICES,
        "task": guidelines.TASK,
        "labels": guidelines.MEANINGS,
        "rules": guidelines.RULES,
    }
    # No text may end the script in which it stands.
    content = json.dumps(values, ensure_ascii=False).replace("<", "\\u003c")
    return (TEMPLATES / "review.html").read_text(encoding="utf-8").replace("{{ values }}", content)
