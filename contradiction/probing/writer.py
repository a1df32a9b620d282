"""Writes the second thing that the user says with a language model."""

from contradiction.probing.bots import Bot, BotError
from contradiction.probing.run import Limits, Pace, ask
from contradiction.probing.words import lists

LONGEST = 60  # characters; a longer text is an explanation, not a question
QUOTES = "\"'“”‘’「」 　"


class EndpointWriter:
    """Writes u2 by the prompts of ``words.toml``; see ``contradiction.probing.run.Writer``.

    Args:
        model: a language model.
        limits: how it is called.
    """

    def __init__(self, model: Bot, limits: Limits) -> None:
        self._model, self._limits, self._pace = model, limits, Pace(limits.per_minute)

    def __call__(self, trigger: str, u1: str, b1: str) -> str | None:
        """What the user says after b1; None where the model gives nothing usable."""
        prompt = lists()["prompts"][trigger].format(u1=u1, b1=b1)
        try:
            reply = ask(self._model, [{"role": "user", "content": prompt}], self._pace, self._limits)
        except BotError:
            return None
        text = next((line.strip(QUOTES) for line in reply.splitlines() if line.strip(QUOTES)), "")
        return text if 0 < len(text) <= LONGEST and text != u1 else None
