"""A text that was cut out of a longer one, and where its characters stand there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Extract:
    """A text that was made from another one by leaving parts out.

    Attributes:
        text: the text.
        places: the place of each character in the whole text.
    """

    text: str
    places: Sequence[int]

    @classmethod
    def whole(cls, text: str) -> "Extract":
        """All of a text."""
        return cls(text, range(len(text)))

    def __getitem__(self, part: slice) -> "Extract":
        return Extract(self.text[part], self.places[part])

    def sub(self, pattern: Any, gap: str | Callable[[Any], str | None] = "") -> "Extract":
        """Replaces what a compiled pattern finds.

        Each match becomes its group ``kept`` if it has one, otherwise ``gap``. ``gap`` may be a function of the match;
        where it returns None, the match stays.
        """
        texts: list[str] = []
        places: list[int] = []
        done = 0

        def keep(start: int, end: int) -> None:
            texts.append(self.text[start:end])
            places.extend(self.places[start:end])

        for match in pattern.finditer(self.text):
            kept = match.start("kept") if "kept" in pattern.groupindex else -1
            new = gap if isinstance(gap, str) else gap(match)
            if new is None:
                continue
            keep(done, match.start())
            if kept >= 0:
                keep(kept, match.end("kept"))
            else:
                texts.append(new)
                places.extend([self.places[match.start()]] * len(new))
            done = match.end()
        if not done:
            return self
        keep(done, len(self.text))
        return Extract("".join(texts), places)

    def strip(self) -> "Extract":
        """Without spaces and line breaks at its ends."""
        start = len(self.text) - len(self.text.lstrip())
        return self[start : max(start, len(self.text.rstrip()))]

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """The start and end in the whole text of a part that is not empty."""
        return self.places[start], self.places[end - 1] + 1
