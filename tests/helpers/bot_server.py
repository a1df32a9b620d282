"""A chat endpoint on loopback with a scripted bot that contradicts itself at known rates and can fail on purpose."""

import hashlib
import json
import re
from collections import Counter

from helpers.chat_server import ChatServer

# The true share of conversations whose last reply is a contradiction, by kind.
RATES = {"history": 0.15, "intra-sentence": 0.08, "role-confusion": 0.05}
FAULTS = ("429", "500", "hang", "broken", "half", b'{"choices": []}')


def chance(*parts) -> float:
    """A number from 0 to 1 that depends on the texts alone."""
    return int.from_bytes(hashlib.sha256("|".join(map(str, parts)).encode()).digest()[:7]) / 256**7


def scripted(messages) -> str:
    """The reply of the scripted bot: it repeats the number of cats in its first answer, or contradicts it."""
    user_texts = [message["content"] for message in messages if message["role"] == "user"]
    cats = 2 + int(6 * chance(user_texts[0]))
    if len(user_texts) == 1:
        return f"“{user_texts[0]}”？我养了{cats}只猫"
    draw = chance("kind", *user_texts)
    for kind, rate in RATES.items():
        if draw < rate:
            return {
                "history": f"“{user_texts[-1]}”？我养了{cats + 1}只猫",
                "intra-sentence": f"“{user_texts[-1]}”？我养了{cats}只猫，我没养猫",
                "role-confusion": f"“{user_texts[-1]}”？你养了{cats}只猫",
            }[kind]
        draw -= rate
    return f"“{user_texts[-1]}”？我养了{cats}只猫"


def true_label(b1: str, b2: str) -> str:
    """The true label of a reply of the scripted bot, which ignores what the reply quotes."""
    b1, b2 = (text.rpartition("”")[2] for text in (b1, b2))
    if "没养猫" in b2:
        return "intra-sentence"
    if "你养了" in b2:
        return "role-confusion"
    cats = [re.findall(r"养了(\d)只猫", text)[-1] for text in (b1, b2)]
    return "history" if cats[0] != cats[1] else "non-contradiction"


class BotServer(ChatServer):
    """The server.

    Args:
        reply: messages -> the text of the reply.
        fault: (messages, how often they were sent before) -> a fault of ``chat_server``, or None for a good answer.
        delay: the seconds before each answer.
        finish: messages -> the reason why the reply ends.

    Attributes:
        seen: chat -> how often it was sent.
    """

    def __init__(self, reply=scripted, fault=lambda messages, before: None, delay=0.0, finish=lambda messages: "stop"):
        super().__init__(
            lambda body: reply(body["messages"]), self._fault, delay, lambda body: finish(body["messages"])
        )
        self._fault_of, self.seen = fault, Counter()

    def _fault(self, number, body):
        chat = json.dumps(body["messages"], ensure_ascii=False)
        with self.lock:
            before = self.seen[chat]
            self.seen[chat] += 1
        return self._fault_of(body["messages"], before)
