"""Chats for tests."""


def chat(*texts: str) -> list[dict[str, str]]:
    """The messages of a chat, whose user speaks first and whose sides take turns."""
    return [{"role": ("user", "assistant")[index % 2], "content": text} for index, text in enumerate(texts)]
