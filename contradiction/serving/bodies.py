"""The bodies of requests and answers, from which the OpenAPI page is made."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

CHAT = [
    {"role": role, "content": text}
    for role, text in zip(
        ("user", "assistant") * 2, ("你养猫吗？", "养了一只橘猫", "它叫什么名字？", "我没养过猫呀"), strict=True
    )
]


class Options(BaseModel):
    """What may stand in every request; see ``contradiction.settings.Settings``."""

    model_config = ConfigDict(extra="forbid")

    threshold: float | str | None = Field(
        None, description="A contradiction is called from this probability on; or `precision>=0.8`."
    )
    prior: float | None = Field(None, description="The share of contradictions among your replies, such as 0.1.")
    categories: list[str] | None = Field(None, description="Call only these kinds of contradiction.")
    max_turns: int | None = Field(None, description="The most earlier turns that a reply is compared with.")


class ChatRequest(Options):
    """A chat."""

    messages: list[dict[str, Any]] = Field(description="Messages with `role` and `content`.", examples=[CHAT])


class RerankRequest(ChatRequest):
    """A chat, and the replies that a bot could give."""

    messages: list[dict[str, Any]] = Field(description="The chat so far, up to the user.", examples=[CHAT[:3]])
    candidates: list[str] = Field(examples=[["我没养过猫呀", "它叫橘子"]])


class CheckRequest(Options):
    """A reply, and facts about the bot."""

    facts: list[str] = Field(description="Sentences in the bot's own words.", examples=[["我没有养宠物"]])
    reply: str = Field(examples=["我家的猫叫橘子"])
    question: str = Field("", description="What the user said before the reply.")


class Clash(BaseModel):
    """An earlier reply that the judged one contradicts."""

    messages: list[int]
    score: float


class Verdict(BaseModel):
    """The verdict on a reply, with the fields of ``cdconv detect``."""

    label: str | None
    contradiction: bool | None
    kind: str | None
    certainty: str | None
    score: float | None
    scores: dict[str, float]
    probability: float | None
    evidence: list[int]
    checked: bool
    reason: str | None
    reply: list[int]
    further: list[Clash]


class Verdicts(BaseModel):
    """A verdict on each reply of a chat."""

    verdicts: list[Verdict]


class Candidate(BaseModel):
    """A candidate with its verdict."""

    index: int
    reply: str
    verdict: Verdict


class Ranking(BaseModel):
    """The candidates, the least likely contradiction first."""

    ranked: list[Candidate]


class Span(BaseModel):
    """A clause of a message."""

    message: int
    start: int
    end: int


class Clauses(BaseModel):
    """The two clauses that clash; empty where there are none."""

    clauses: list[Span]


class Refusal(BaseModel):
    """Why there is no answer."""

    error: str
