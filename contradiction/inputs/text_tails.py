"""The end of a long text: all that a model can reach of it, found without reading the rest."""

from collections.abc import Callable, Iterator

# A cut may fall within a word, whose rest then becomes other tokens than the word did: at most this many (WordPiece
# takes words of up to 100 characters apart, and longer ones not at all).
MARGIN = 128
# Characters a token: of nearly all texts; and of what is looked at in texts that are nearly all spaces and the like, so
# that the time is bounded for any text.
USUAL, UNUSUAL = 4, 64


def ends(text: str, tokens: int) -> Iterator[str]:
    """Ends of a text, the longer one last: where so many tokens are looked for. A text that is not long is its end."""
    for size in (USUAL * tokens, UNUSUAL * tokens):
        if size >= len(text):
            yield text
            return
        yield text[-size:]


def tail(text: str, tokens: int, count: Callable[[str], int]) -> str:
    """The end of a text whose last ``tokens`` tokens are those of the text itself; all of a text that is not long.

    Twice as many are taken, and a margin, because a cut has an effect on the tokens behind it: to the end of a word,
    and where words are not told apart, until the pieces fall as before. In text that repeats itself without end they
    may not; and the end of a text without tokens for nearly all its characters may hold fewer than the model can read.

    Args:
        text: of any length.
        tokens: that are read at most.
        count: text -> how many tokens it has.
    """
    wanted = 2 * tokens + MARGIN
    for end in ends(text, wanted):
        if len(end) == len(text) or count(end) >= wanted:
            break
    return end
