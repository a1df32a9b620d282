"""Writes a chat in the template of a chat model and finds the token at the end of each message."""

import os
from typing import TYPE_CHECKING, Any

from contradiction.conversation import ASSISTANT, USER
from contradiction.errors import InputError
from contradiction.inputs.views import cleaner

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

BASE_VARIABLE = "CDCONV_BASE"  # names a folder with the base model, which is then used in place of its Hub id
START, END = "<|im_start|>", "<|im_end|>"  # of a message in ChatML
# Writes messages as a reader does, without the removal of markup.
CHAT_TEMPLATE = (
    "{% for message in messages %}" + START + "{{ message.role }}\n{{ message.content }}" + END + "{% endfor %}"
)


class ChatReader:
    """Tokenizes chats in ChatML, without the line break between two messages.

    Args:
        tokenizer: the tokenizer of a chat model whose marks are ``<|im_start|>`` and ``<|im_end|>``.
        name: the name of the model in messages.

    Raises:
        InputError: the tokenizer has no such marks.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", name: str = "model") -> None:
        self.tokenizer, self._clean = tokenizer, cleaner(tokenizer)
        marks: list[Any] = [tokenizer.convert_tokens_to_ids(mark) for mark in (START, END)]
        start, end = marks
        if any(not isinstance(token, int) or token == tokenizer.unk_token_id for token in marks):
            raise InputError(f"{name}: its tokenizer has no {START} and {END}; name a model that chats in ChatML")
        self._end = end
        self._heads = {role: [start, *self._ids(f"{role}\n")] for role in (USER, ASSISTANT)}

    def message(self, role: str, text: str) -> list[int]:
        """The tokens of one message, with its marks."""
        return [*self._heads[role], *self._ids(self._clean(text)), self._end]

    def end_of(self, role: str, tokens: list[int], limit: int) -> list[int]:
        """The marks of a message and the end of its text, at most ``limit`` tokens."""
        head = len(self._heads[role])
        return tokens[:head] + tokens[head:][-(limit - head) :] if len(tokens) > limit else tokens

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False, verbose=False)


def base_of(name: str) -> str:
    """The folder of ``CDCONV_BASE`` if it is set, else the name of the base."""
    return os.environ.get(BASE_VARIABLE) or name
