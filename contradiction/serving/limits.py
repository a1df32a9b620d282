"""What one request may ask of the service."""

from dataclasses import dataclass

from contradiction.inputs.windows import MAX_TURNS

LONGEST_ROW = 1000  # characters of a row that count towards the cost of a request: a model reads no more


@dataclass(frozen=True)
class Limits:
    """What one request may ask of the service.

    Attributes:
        body: the most bytes of a request.
        messages: the most messages of a chat.
        candidates: the most candidates to rank, or facts to check against.
        cost: the most characters that may be read: those of every pair of replies that is compared and was not read
            before. By default, one reply can always be judged against as many earlier turns as a detector reads.
        seconds: the longest time to answer.
        requests: how many requests are worked on or wait; beyond them, the service says that it is busy.
        visitor: the same for the requests of one visitor, who is known by the address.
        turns: how many requests of one visitor are worked on at a time; the visitor's others wait.
    """

    body: int = 512 * 1024
    messages: int = 400
    candidates: int = 64
    cost: int = MAX_TURNS * LONGEST_ROW
    seconds: float = 30.0
    requests: int = 256
    visitor: int = 256
    turns: int = 64
