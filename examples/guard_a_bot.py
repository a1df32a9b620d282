"""A chatbot that sends the most consistent of several replies.

The bot is any model behind an OpenAI-compatible endpoint:

    python examples/guard_a_bot.py --base-url http://127.0.0.1:8000/v1 --bot NAME

The detector runs on this machine, on the CPU.
"""

import argparse
import os
import sys

import httpx

from contradiction import ContradictionDetector
from contradiction.paths import SHIPPED


def candidates(client: httpx.Client, bot: str, messages: list[dict[str, str]], n: int) -> list[str]:
    """Replies of the bot to a chat. A server that ignores ``n`` is asked n times."""
    asked = {"model": bot, "messages": messages, "n": n, "temperature": 1.0}
    answer = client.post("chat/completions", json=asked).raise_for_status().json()
    found = [choice["message"]["content"] for choice in answer["choices"]]
    while len(found) < n:
        answer = client.post("chat/completions", json=asked | {"n": 1}).raise_for_status().json()
        found.append(answer["choices"][0]["message"]["content"])
    return found


def main() -> None:
    """Reads what the user says from standard input, one message per line, and prints the replies."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base-url", required=True, help="the address of the endpoint, including /v1")
    parser.add_argument("--bot", required=True, help="the model that the endpoint serves")
    parser.add_argument("--detector", default=SHIPPED, help="a model folder or Hub id")
    parser.add_argument("--candidates", type=int, default=4, help="the number of replies to choose from")
    options = parser.parse_args()
    if options.candidates < 1:
        parser.error(f"--candidates {options.candidates}: must be 1 or more")

    try:
        detector = ContradictionDetector.from_pretrained(options.detector)
    except ValueError as error:
        sys.exit(f"guard_a_bot: {error}")
    key = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"} if "OPENAI_API_KEY" in os.environ else {}
    messages: list[dict[str, str]] = []
    failed = False
    with httpx.Client(base_url=f"{options.base_url.rstrip('/')}/", headers=key, timeout=60) as client:
        for line in filter(str.strip, sys.stdin):
            messages.append({"role": "user", "content": line.strip()})
            try:
                best, *others = detector.rerank(messages, candidates(client, options.bot, messages, options.candidates))
            except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:  # no answer, no JSON, no text in it
                if isinstance(error, httpx.HTTPStatusError) and error.response.status_code in (401, 403, 404):
                    # A wrong key or address, which saying it again does not mend. The second line is httpx's link.
                    sys.exit(f"guard_a_bot: {str(error).splitlines()[0]}")
                failed = True
                messages.pop()  # the chat goes on as if this had not been said
                said = " ".join(repr(error).split())
                print(f"guard_a_bot: {options.base_url}: {said}; say it again", file=sys.stderr)
                continue
            messages.append({"role": "assistant", "content": best.reply})
            print(best.reply)
            for other in (other for other in others if other.verdict.contradiction):
                earlier = [messages[index]["content"] for index in other.verdict.evidence]
                print(f"  not said: {other.reply} ({other.verdict.label}{': ' + earlier[0] if earlier else ''})")
    sys.exit(failed)


if __name__ == "__main__":
    main()
