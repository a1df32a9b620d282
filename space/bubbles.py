"""A chat as bubbles of HTML, with what is said of its replies."""

import html
from collections.abc import Iterable, Mapping, Sequence

from wording import brief

from contradiction import Verdict
from contradiction.conversation import USER

CSS = """
.chat {display: flex; flex-direction: column; gap: .9rem; padding: .25rem}
.chat p {margin: 0; padding: .5rem .8rem; border-radius: .9rem; max-width: 88%; max-height: 16rem; overflow-y: auto;
  line-height: 1.5; overflow-wrap: anywhere; white-space: pre-wrap; color: var(--body-text-color)}
.chat small {display: block; font-size: .75rem; opacity: .75}
.chat .user {align-self: flex-end; background: var(--primary-100)}
.chat .bot {align-self: flex-start; background: var(--neutral-200)}
.dark .chat .user {background: var(--primary-900)}
.dark .chat .bot {background: var(--neutral-700)}
.chat .clash {outline: 3px solid #dc2626}
.chat .hit {outline: 2px dashed #dc2626}
.chat .fine {outline: 3px solid #16a34a}
.dark .chat .clash, .dark .chat .hit {outline-color: #f87171}
.dark .chat .fine {outline-color: #4ade80}
"""
Note = tuple[str, str]  # a class of the CSS, and words: colours alone would tell not everyone


def of_last(verdict: Verdict, last: int, words: Mapping[str, str]) -> dict[int, Note]:
    """Notes for the judged reply, message number ``last``, and for what it contradicts."""
    notes = {index: ("clash", words["contradicted"]) for index in verdict.evidence}
    fine = "fine" if verdict.checked else ""  # what was read in part is not called fine
    notes[last] = ({True: "clash", False: fine, None: ""}[verdict.is_contradiction], words["judged"])
    return notes


def of_all(verdicts: Sequence[Verdict], names: Sequence[str], words: dict[str, str]) -> dict[int, Note]:
    """Notes for all messages of a chat: what a reply is judged to be, what it contradicts, what contradicts it."""

    def named(indices: Iterable[int]) -> str:
        return words["comma"].join(names[index] for index in indices)

    replies = {verdict.reply[-1]: verdict for verdict in verdicts}
    notes = {}
    for index in range(len(names)):
        own = replies.get(index)
        said = [brief(own, words)] if own else []
        if own and own.evidence:
            said.append(words["against"].format(names=named(own.evidence)))
        if by := [place for place, verdict in replies.items() if index in verdict.evidence]:
            said.append(words["by"].format(names=named(by)))
        mark = "clash" if own and own.is_contradiction else "hit" if by else ""
        notes[index] = (mark, " · ".join(said))
    return notes


def chat_html(
    messages: Mapping[int, tuple[str, str]], names: Sequence[str], notes: Mapping[int, Note], words: Mapping[str, str]
) -> str:
    """The chat as bubbles.

    Args:
        messages: index -> role and text, of those that are shown.
        names: of the messages, by index.
        notes: index -> note.
        words: of the language.
    """
    bubbles = []
    for index, (role, text) in messages.items():
        speaker = "user" if role == USER else "bot"
        mark, note = notes.get(index, ("", ""))
        caption = html.escape(" · ".join(filter(None, (names[index], words[speaker], note))))
        said = f'<span lang="zh-CN">{html.escape(text)}</span>'
        bubbles.append(f'<p class="{speaker} {mark}"><small>{caption}</small>{said}</p>')
    return f'<div class="chat">{"".join(bubbles)}</div>'
