"""What the page says: its words in the language that a visitor chose, or else that of the browser, and examples."""

import re
import tomllib
from pathlib import Path
from typing import Any

import gradio as gr

from contradiction.conversation import alternating

_TABLES = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
ENGLISH: dict[str, str] = _TABLES["en"]
CHINESE: dict[str, str] = _TABLES["zh"]
LANGUAGES = {"en": ENGLISH, "zh": CHINESE}
REASONS: dict[str, str] = _TABLES["reasons"]
# What a Chinese text may hold in English: quoted text, code, names of files, of keys and of forms.
KEPT = (
    r"'[^']*'|`[^`]*`|[\w.-]*\.\w+|"
    r"\b(?:JSON|CSV|TSV|UTF|GB|MB|Parquet|role|content|messages|user|assistant)\b"
)
COOKIE = "cdconv-language"  # the language that a visitor chose: zh or en
# The two forms of Chinese that Gradio's own words come in. To a browser set to zh, zh-HK or zh-Hans-CN Gradio shows
# English, because it looks up the exact name. So the page tells Gradio the nearest of the two before it starts.
LOCALES = ("zh-CN", "zh-TW")


def words_of(request: gr.Request) -> dict[str, str]:
    """The words in the language in which this visitor reads the page."""
    chosen = request.cookies.get(COOKIE) if request.cookies else None
    if chosen in LANGUAGES:
        return LANGUAGES[chosen]
    first = request.headers.get("accept-language", "").split(",")[0].split(";")[0].strip()
    return CHINESE if re.match(r"zh(-|$)", first, flags=re.IGNORECASE) else ENGLISH


def in_words(reason: str, words: dict[str, str]) -> str:
    """A message of the library in the language of the visitor; in English where it is not translated completely."""
    if words is not CHINESE:
        return reason
    translated = reason
    for pattern, chinese in REASONS.items():
        translated = re.sub(pattern, chinese, translated)
    is_english = re.search("[A-Za-z]{2}", re.sub(KEPT, "", translated, flags=re.ASCII))
    return words["inEnglish"].format(reason=reason) if is_english else translated


def for_browser() -> list[tuple[str, str]]:
    """``REASONS`` as JavaScript writes them."""
    return [(pattern, re.sub(r"\\(\d)", r"$\1", chinese)) for pattern, chinese in REASONS.items()]


def text_key(key: str) -> str:
    """The key of a text among Gradio's own texts, some of which have the same names."""
    return f"cdconv {key}"


def translations(**values: dict[str, Any]) -> gr.I18n:
    """The words of the page by language, under the keys that :func:`text_key` gives; the browser chooses.

    ``values`` fill the placeholders of the text of each key.
    """

    def filled(words: dict[str, str]) -> dict[str, str]:
        texts = words | {name: words[name].format(**blanks) for name, blanks in values.items()}
        return {text_key(key): text for key, text in texts.items()}

    return gr.I18n(en=filled(ENGLISH), **{locale: filled(CHINESE) for locale in LOCALES})


FILE = Path(__file__).with_name("examples.toml")
Example = dict[str, Any]


def examples() -> list[Example]:
    """Chats with what they are sorted by, their kind, a title, messages, and which message contradicts."""
    rows = tomllib.loads(FILE.read_text(encoding="utf-8"))["examples"]
    return [
        {**row, "title": [turns[1], turns[3]] if len(turns) == 4 else turns[:1], "messages": alternating(turns)}
        for row in rows
        for turns in [row["turns"]]
    ]


def pairs() -> list[Example]:
    """Chats with a reply that contradicts, and one that does not."""
    rows = tomllib.loads(FILE.read_text(encoding="utf-8"))["pairs"]
    return [{"messages": alternating(row["turns"]), "one": row["contradicts"], "other": row["fits"]} for row in rows]
