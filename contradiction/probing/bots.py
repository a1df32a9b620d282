"""The bots that can be probed, beside an endpoint: a chat model of transformers, a Python function, and a program."""

import importlib
import json
import os
import queue
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from contradiction.errors import InputError, first_line, kind_of, shown
from contradiction.inference.torch_backend import best_device
from contradiction.io.endpoint import MAX_TOKENS, Answer, NoAnswerError
from contradiction.io.pretrained import check_weights, load_model, load_tokenizer, loading

Messages = Sequence[dict[str, str]]


class Bot(Protocol):
    """A bot that is probed; an :class:`~contradiction.io.endpoint.Endpoint` is one, too."""

    def ask(self, messages: Messages) -> Answer:
        """The reply to a chat. The chat is all that the bot may know; it is called from several threads.

        Raises:
            NoAnswerError: there is no reply.
            InputError: there will never be one; the message says why.
        """
        ...

    def check(self) -> None:
        """Raises InputError if the bot cannot be reached; the bot is not asked for a reply."""
        return

    def close(self) -> None:
        """Ends what the bot runs on."""
        return


class FunctionBot(Bot):
    """A Python function from a list of messages to the reply.

    Args:
        name: ``module:function``; the module may also be in the working folder.
        timeout: the seconds that a call may take. A call that takes longer goes on in the background, and its reply
            is ignored.
    """

    def __init__(self, name: str, *, timeout: float = 60) -> None:
        module, _, function = name.partition(":")
        if "" not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        try:
            self._function: Callable[[Messages], Any] = getattr(importlib.import_module(module), function)
        except Exception as error:  # the module may raise anything
            raise InputError(f"function {shown(name)}: {first_line(error)}; it must be module:function") from None
        self._timeout = timeout

    def ask(self, messages: Messages) -> Answer:
        """Calls the function."""
        done: queue.Queue[Any] = queue.Queue()

        def call() -> None:
            try:
                # Copies: the function may write its prompt into them, and the chat goes on with what was said.
                done.put(self._function([dict(message) for message in messages]))
            except Exception as error:  # any error of the function means that there is no reply
                done.put(error)

        threading.Thread(target=call, daemon=True).start()
        try:
            reply = done.get(timeout=self._timeout)
        except queue.Empty:
            raise NoAnswerError(f"no reply within {self._timeout:g} s") from None
        if isinstance(reply, Exception):
            raise NoAnswerError(f"{type(reply).__name__}: {first_line(reply)}")
        if not isinstance(reply, str):
            raise InputError(f"the function returned {kind_of(reply)}; it must return the text of the reply")
        return Answer(reply)


class CommandBot(Bot):
    """A program that reads a line ``{"messages": [...]}`` and answers with a line ``{"reply": text}``.

    Each thread has a process of its own. One that ends, hangs or writes anything else is started again. A process ends
    together with those that it has started; on Windows they go on.
    """

    def __init__(self, command: str, *, timeout: float = 60) -> None:
        self._line, self._timeout = command, timeout
        try:
            # Windows splits a command line itself; for shlex the backslashes of its paths would be escapes.
            self._command: str | list[str] = command.strip() if os.name == "nt" else shlex.split(command)
        except ValueError as error:
            raise InputError(f"command {shown(command)}: {first_line(error)}") from None
        if not self._command:
            raise InputError("the command of the bot is empty")
        self._local, self._lock = threading.local(), threading.Lock()
        self._processes: set[subprocess.Popen[str]] = set()
        self._closed = False

    def ask(self, messages: Messages) -> Answer:
        """Writes one line and reads one."""
        process, lines = self._process()
        # A line before the request is no answer to it. Taken for one, it would shift all later answers.
        early = not lines.empty()
        if not early:
            request = json.dumps({"messages": list(messages)}, ensure_ascii=False) + "\n"
            # In a thread, because a program that hangs may never read a long line.
            threading.Thread(target=_send, args=(process.stdin, request), daemon=True).start()
        try:
            line = lines.get(timeout=self._timeout)
            reply = json.loads(line)["reply"] if line and not early else None
        except queue.Empty:
            self._end()
            raise NoAnswerError(f"no answer within {self._timeout:g} s") from None
        except (ValueError, LookupError, TypeError):
            reply = None
        if isinstance(reply, str):
            return Answer(reply)
        self._end()
        wrote = "wrote a line that nobody asked for," if early else "answered"
        outcome = f"{wrote} {shown(line.strip())}" if line else f"ended with code {process.wait()}"
        raise NoAnswerError(f'the program {outcome}; each request gets one line, {{"reply": text}}')

    def _process(self) -> tuple[subprocess.Popen[str], "queue.Queue[str]"]:
        if getattr(self._local, "running", None) is None:
            try:
                process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", bufsize=1,
                    start_new_session=True, env={"PYTHONIOENCODING": "utf-8", **os.environ},
                )  # fmt: skip
            except OSError as error:
                raise InputError(f"command {shown(self._line)}: {error.strerror}") from None
            lines: queue.Queue[str] = queue.Queue()
            threading.Thread(target=_pump, args=(process.stdout, lines), daemon=True).start()
            self._local.running = process, lines
            with self._lock:
                self._processes.add(process)
                closed = self._closed
            if closed:  # by another thread, which did not see this process
                _kill(process)
        return self._local.running

    def _end(self) -> None:
        process, _ = self._local.running
        self._local.running = None
        with self._lock:
            self._processes.discard(process)
        _kill(process)

    def close(self) -> None:
        """Ends the processes. Afterwards every call raises NoAnswerError."""
        with self._lock:
            processes, self._processes = self._processes, set()
            self._closed = True
        for process in processes:
            _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    """Ends a program and, on POSIX, the other processes of its session."""
    if os.name != "posix":
        process.kill()
    elif process.returncode is None:  # afterwards its number may belong to another process
        with suppress(ProcessLookupError, PermissionError):  # macOS refuses where only ended processes are left
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin:
        with suppress(OSError):  # what was not written yet cannot be written any more
            process.stdin.close()


def _send(stream: Any, line: str) -> None:
    """Writes a line to a program, which may have ended or be ended meanwhile."""
    with suppress(OSError, ValueError):
        stream.write(line)  # sent at once, because the stream is buffered by lines


def _pump(stream: Any, lines: "queue.Queue[str]") -> None:
    """Reads the lines of a program until it ends, and closes the stream."""
    try:
        with stream:
            for line in stream:
                lines.put(line)
    except ValueError:
        lines.put("bytes that are not UTF-8")
    lines.put("")


class TransformersBot(Bot):
    """A chat model that `transformers` loads, with a chat template, on a GPU if there is one.

    None of the model's own code is run, and no pickle is read.
    """

    def __init__(self, name: str, *, max_new_tokens: int = MAX_TOKENS) -> None:
        import torch

        self._device = best_device()
        with loading(name, f"{name}: no chat model that transformers loads"):
            from transformers import AutoModelForCausalLM

            self._tokenizer: Any = load_tokenizer(name)
            # A model in half precision is slow on a CPU.
            dtype = torch.float32 if self._device == "cpu" else "auto"
            model, report = load_model(AutoModelForCausalLM, name, dtype=dtype)
            check_weights(name, model, report)
        self._name: str = name
        self._model: Any = model.eval()
        self._model.to(self._device)
        self._max_new_tokens, self._lock = max_new_tokens, threading.Lock()

    def ask(self, messages: Messages) -> Answer:
        """Generates one reply, however long it takes; one at a time."""
        import torch

        with self._lock, torch.inference_mode():
            inputs = self._tokenizer(self._text(messages), return_tensors="pt", add_special_tokens=False)
            inputs = {key: inputs[key].to(self._device) for key in ("input_ids", "attention_mask")}
            output = self._model.generate(
                **inputs, max_new_tokens=self._max_new_tokens, do_sample=False,
                pad_token_id=self._tokenizer.pad_token_id or 0,
            )  # fmt: skip
            written = output[0, inputs["input_ids"].shape[1] :]
            text = self._tokenizer.decode(written, skip_special_tokens=True).strip()
        ends = self._model.generation_config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        return Answer(text, cut=len(written) >= self._max_new_tokens and int(written[-1]) not in ends)

    def _text(self, messages: Messages) -> str:
        """The chat in the template of the model."""
        options = {"tokenize": False, "add_generation_prompt": True}
        try:
            return self._tokenizer.apply_chat_template(list(messages), **options)
        except Exception as error:  # the template may raise anything
            why = first_line(error)
        if messages[0]["role"] == "system":  # some models know no such role; the user then says it first
            instruction, first, *others = messages
            joined = {"role": "user", "content": f"{instruction['content']}\n\n{first['content']}"}
            return self._text([joined, *others])
        raise InputError(f"{self._name}: its chat template cannot write the chat ({why})")
