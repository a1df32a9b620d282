"""The limits of one request to the service. Light to import, because every command reads the defaults."""

from dataclasses import dataclass

from contradiction.inputs.windows import MAX_TURNS

LONGEST_ROW = 1000  # characters of a row that count towards the cost of a request: a model reads no more


@dataclass(frozen=True)
class Limits:
    """The limits of one request to the service.

    Attributes:
        body: the maximum size of a request in bytes.
        messages: the maximum number of messages of a chat.
        candidates: the maximum number of candidates to rank, or of facts to check against.
        cost: the maximum number of characters to read: those of every pair of replies that is compared and was not read
            before. By default, one reply can always be judged against as many earlier turns as a detector reads.
        seconds: the maximum time to answer.
        requests: how many requests are worked on or wait; beyond them, the service says that it is busy.
        per_caller: the same for the requests of one caller, who is known by the address. By default all, because most
            services have one caller, the backend of a chatbot.
        at_once: how many requests of one caller are worked on at a time; the caller's others wait. A model reads 32
            rows in a batch. While it does so, the rows of the next requests are collected.
    """

    body: int = 512 * 1024
    messages: int = 400
    candidates: int = 64
    cost: int = MAX_TURNS * LONGEST_ROW
    seconds: float = 30.0
    requests: int = 256
    per_caller: int = 256
    at_once: int = 64
