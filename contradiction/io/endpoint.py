"""A language model behind an OpenAI-compatible endpoint, and calls that are repeated and run several at a time."""

import json
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Event, Semaphore, Thread
from typing import Any, TypeVar

from contradiction.conversation import ASSISTANT, read_message
from contradiction.errors import InputError, first_line, shown

T = TypeVar("T")
R = TypeVar("R")
URL, KEY = "OPENAI_BASE_URL", "OPENAI_API_KEY"  # the environment variables, with the names of OpenAI's own client
BUSY = (408, 409, 425, 429)  # statuses that are worth another attempt, besides those from 500 on
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0  # seconds before another attempt; each wait is twice as long as the one before
MAX_TOKENS = 1024  # of the reply of a bot; language models often write some hundred
LIMIT, NEW_LIMIT = "max_tokens", "max_completion_tokens"  # models of OpenAI that think refuse the first
KNOCK_SECONDS = 5.0  # of the check that an endpoint is there
MAX_BYTES = 4_000_000  # of an answer; a longer one is no chat completion


class RefusedError(InputError):
    """The endpoint refuses a request, and would refuse it again.

    Attributes:
        status: the status of the HTTP answer.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class NoAnswerError(Exception):
    """A model or a bot gave no complete answer.

    Attributes:
        wait: the seconds to wait before another attempt, as the other side asks; None if it does not ask.
        again: whether another attempt may get an answer.
    """

    def __init__(self, message: str, *, wait: float | None = None, again: bool = True) -> None:
        super().__init__(message)
        self.wait, self.again = wait, again


@dataclass(frozen=True)
class Answer:
    """The answer of a model.

    Attributes:
        text: what the model says to the user, without thoughts; a refusal is also an answer.
        prompt_tokens, completion_tokens: the tokens read and written, as the endpoint counts them; 0 if it does not.
        seconds: from the last attempt to its answer.
        cut: whether the answer ends because it may not be longer.
        instead: what stands in place of a usual answer: a refusal, or what there is without a text; None for an answer.
    """

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    cut: bool = False
    instead: str | None = None


class Endpoint:
    """A model behind an OpenAI-compatible endpoint. Several threads can ask it at the same time.

    Args:
        model: the name of the model there.
        url: the address including ``/v1``; by default ``$OPENAI_BASE_URL``.
        key: the secret; by default that of ``key_variable``. An empty one is not sent.
        key_variable: the environment variable that holds the secret; by default ``$OPENAI_API_KEY``, if it is set.
        timeout: the maximum number of seconds for an answer, from the first byte sent to the last one received.
        options: further keys of each request, such as ``temperature``; None leaves one out.

    Raises:
        InputError: the address is missing or not valid, a variable is named that holds no secret, or no HTTP header can
            hold the secret.
    """

    def __init__(
        self,
        model: str,
        *,
        url: str | None = None,
        key: str | None = None,
        key_variable: str | None = None,
        timeout: float = 60.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        import httpx

        url = (url or os.environ.get(URL) or "").rstrip("/")
        if not url:
            raise InputError(f"{model}: no endpoint; ${URL} must hold its address, such as http://127.0.0.1:8000/v1")
        try:
            address = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise InputError(f"endpoint {shown(url)}: {first_line(error)}") from None
        if address.scheme not in ("http", "https") or not address.host:
            raise InputError(f"endpoint {shown(url)}; an address begins with http:// or https:// and a host")
        if address.userinfo:  # it would stand in messages and reports
            raise InputError("the address of the endpoint holds a password; a variable must hold the key")
        if key_variable and not os.environ.get(key_variable, "").strip():
            raise InputError(f"{url}: the variable {shown(key_variable)} is empty or not set; it must hold the key")
        secret = (os.environ.get(key_variable or KEY, "") if key is None else key).strip()
        if not (secret.isascii() and secret.isprintable()):  # httpx would quote it in its error
            raise InputError(f"{url}: the key holds characters that no HTTP header can hold")
        self.model, self.url, self._limit = model, f"{url}/chat/completions", LIMIT
        self._models, self._timeout = f"{url}/models", timeout
        self._options = {name: value for name, value in (options or {}).items() if value is not None}
        self._client = httpx.Client(
            headers={"authorization": f"Bearer {secret}"} if secret else {},
            timeout=timeout,
            limits=httpx.Limits(max_connections=None),
        )

    def close(self) -> None:
        """Closes the connections that no request uses."""
        self._client.close()

    def check(self) -> None:
        """Asks for the list of models, and takes any answer, also an error; raises InputError without a connection."""
        import httpx

        try:
            with self._client.stream("GET", self._models, timeout=KNOCK_SECONDS):
                pass
        except (httpx.ConnectTimeout, httpx.ConnectError) as error:
            raise InputError(f"{self.url}: cannot be reached: {first_line(error)}") from None
        except httpx.HTTPError:  # there is a server; what it lacks shows when it is asked
            pass

    def ask(self, messages: Sequence[Mapping[str, str]], **options: Any) -> Answer:
        """The answer to a chat, in one attempt.

        Raises:
            RefusedError: the endpoint refuses the request, and would refuse it again.
            NoAnswerError: there is no answer now.
        """
        import httpx

        body = {"model": self.model, "messages": [dict(message) for message in messages]}
        body |= {self._limit if name == LIMIT else name: value for name, value in (self._options | options).items()}
        start = time.monotonic()
        try:
            with self._client.stream("POST", self.url, json=body) as response:
                content = b"".join(_within(response.iter_bytes(), start + self._timeout))
        except (httpx.TimeoutException, TimeoutError):
            raise NoAnswerError(f"no answer within {self._timeout:g} seconds") from None
        except httpx.HTTPError as error:
            raise NoAnswerError(first_line(error)) from None
        if response.is_success:
            return _answer(content, time.monotonic() - start)
        problem = f"HTTP {response.status_code} {_reason(content) or response.reason_phrase}".rstrip()
        if response.status_code == 400 and LIMIT in body and NEW_LIMIT in problem:
            self._limit = NEW_LIMIT
            return self.ask(messages, **options)
        if response.status_code == 404:  # servers answer so if either is wrong, and few say which
            problem += f"; the address must include /v1, and the server must have the model {self.model!r}"
        if response.status_code < 500 and response.status_code not in BUSY:
            raise RefusedError(f"{self.url}: {problem}", response.status_code)
        raise NoAnswerError(problem, wait=_retry_after(response.headers.get("retry-after")))


def repeated(call: Callable[[], R], attempts: int, sleep: Callable[[float], object] = time.sleep) -> R:
    """The result of a call, which is repeated after a NoAnswerError; an error that ``sleep`` raises ends the attempts.

    Raises:
        NoAnswerError: that of the last attempt; the message says how many there were.
    """
    for attempt in range(attempts):
        try:
            return call()
        except NoAnswerError as error:
            if not error.again:
                raise
            problem = error
        if attempt + 1 < attempts:
            # Shortened at random, so that threads do not all call again at the same time. An error may ask for more.
            sleep(max(problem.wait or 0.0, min(FIRST_WAIT * 2**attempt, LONGEST_WAIT) * random.uniform(0.5, 1)))
    times = f"{attempts} times" if attempts > 1 else "once"
    raise NoAnswerError(f"{problem} (asked {times})", again=False)


def in_threads(call: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[tuple[T, R]]:
    """Calls a function with each item, several at a time; yields items and results as they come.

    The calls are never further ahead than two for each thread, so a caller that saves each result loses few of them
    when it is killed. After the first error no further call begins. The finished results are yielded, and then the
    error is raised. The threads do not keep the process from ending, as those of ``concurrent.futures`` would: a
    request that hangs must not hold up Ctrl-C.
    """
    waiting: SimpleQueue[T] = SimpleQueue()
    done: SimpleQueue[tuple[T, R | None, BaseException | None]] = SimpleQueue()
    items = list(items)
    for item in items:
        waiting.put(item)
    stopped, ahead = Event(), Semaphore(2 * threads)

    def work() -> None:
        while ahead.acquire() and not stopped.is_set():
            try:
                item = waiting.get_nowait()
            except Empty:
                return
            try:
                done.put((item, call(item), None))
            except BaseException as error:
                done.put((item, None, error))

    for _ in range(min(threads, len(items))):
        Thread(target=work, daemon=True).start()
    first_error: BaseException | None = None
    try:
        for _ in items:
            try:
                item, result, error = done.get(block=first_error is None)
            except Empty:
                break
            if error:
                first_error = first_error or error
                stopped.set()
            else:
                yield item, result  # type: ignore[misc]  # there is a result where there is no error
                ahead.release()
        if first_error:
            raise first_error
    finally:
        stopped.set()
        ahead.release(threads)  # lets waiting threads end


def _within(parts: Iterable[bytes], deadline: float) -> Iterator[bytes]:
    """The parts of an answer; raises TimeoutError at the deadline, even if each single part comes in time."""
    size = 0
    for part in parts:
        yield part
        size += len(part)
        if time.monotonic() > deadline:
            raise TimeoutError
        if size > MAX_BYTES:
            raise NoAnswerError(f"an answer of more than {MAX_BYTES:,} bytes")


def _answer(content: bytes, seconds: float) -> Answer:
    """Reads a chat completion; raises NoAnswerError for anything else."""
    try:
        value = json.loads(content)
        choice = value["choices"][0]
        message, ended = choice["message"], choice.get("finish_reason")
        # A text that is cut inside an emoji may end with half of a surrogate pair, which is not valid text.
        message = json.loads(json.dumps(message, ensure_ascii=False).encode("utf-8", "replace"))
        utterance = read_message({"content": None, **message, "role": ASSISTANT}, "the answer")
        usage = value.get("usage") or {}
        read, written = (int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens"))
    except InputError as error:
        raise NoAnswerError(str(error)) from None
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        raise NoAnswerError(f"not a chat completion: {shown(content.decode('utf-8', 'replace'))}") from None
    text = "" if utterance.skipped else utterance.said.text.strip()
    return Answer(text, read, written, seconds, ended == "length", _instead(text, message, ended))


def _instead(text: str, message: Mapping[str, Any], ended: Any) -> str | None:
    """What a message holds in place of a usual answer, whose text is given; None for a usual answer."""
    if not text:
        keys = [name for name, value in message.items() if name != "role" and value]
        return f"an answer without text: it holds {', '.join(keys) or 'nothing'}, and ends with {shown(ended)}"
    parts = message["content"] if isinstance(message.get("content"), list) else ()
    refused = message.get("refusal") or any(isinstance(part, Mapping) and part.get("refusal") for part in parts)
    return "a refusal" if refused else None


def _reason(content: bytes) -> str:
    """What an answer says about an error."""
    text = content.decode("utf-8", "replace")
    try:
        error = json.loads(text)["error"]
        text = error["message"] if isinstance(error, Mapping) else error
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return " ".join(str(text).split())[:200]


def _retry_after(header: str | None) -> float | None:
    """The seconds that a server asks to wait, up to a minute; None if it names no number of seconds."""
    try:
        return min(max(0.0, float(header or "")), LONGEST_WAIT)  # in this order, so that "nan" becomes 0
    except ValueError:
        return None
