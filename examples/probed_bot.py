"""Two small bots to try `cdconv probe` on. Both give the reply to the most similar question in the embedded sample.

The first forgets what it has said. The second repeats its earlier reply if a question is similar to an earlier one:

    cdconv probe run --function examples.probed_bot:forgetful --name forgetful --out probes/forgetful
    cdconv probe run --function examples.probed_bot:mindful --name mindful --out probes/mindful
    cdconv probe report probes/forgetful probes/mindful --out probes/both
"""

import json
from functools import cache
from typing import Any

from sklearn.feature_extraction.text import TfidfVectorizer

from contradiction.paths import SAMPLE

LIKE = 0.35  # the similarity at which two questions count as the same
Messages = list[dict[str, str]]


@cache
def known() -> tuple[TfidfVectorizer, Any, list[str]]:
    """The questions of the sample as vectors, and the reply to each."""
    pairs: dict[str, str] = {}
    for line in SAMPLE.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        pairs.setdefault(row["u1"], row["b1"])
        pairs.setdefault(row["u2"], row["b2"])
    words = TfidfVectorizer(analyzer="char", ngram_range=(1, 2))
    return words, words.fit_transform(pairs), [*pairs.values()]


def forgetful(messages: Messages) -> str:
    """Replies to the last message, without the earlier ones."""
    words, questions, replies = known()
    return replies[int((questions @ words.transform([messages[-1]["content"]]).T).toarray().argmax())]


def mindful(messages: Messages) -> str:
    """Repeats its earlier reply if a similar question was asked before."""
    words, _, _ = known()
    asked = [index for index, message in enumerate(messages[:-1]) if message["role"] == "user"]
    if asked:
        earlier = words.transform([messages[index]["content"] for index in asked])
        likeness = (earlier @ words.transform([messages[-1]["content"]]).T).toarray().ravel()
        if likeness.max() >= LIKE:
            return messages[asked[int(likeness.argmax())] + 1]["content"]
    return forgetful(messages)
