"""Trains the adapters and the heads of a causal detector, in steps that can resume."""

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from contradiction.decoder.network import Network
from contradiction.decoder.trees import fill_rows, pack
from contradiction.training.decoder_examples import Example
from contradiction.training.decoder_objective import WEIGHTS, losses

LENGTHS = {512: 2, 1024: 1}  # tokens of a row -> the rows of a forward pass
STATE = "state.pt"


@dataclass(frozen=True)
class Schedule:
    """How the weights move.

    Attributes:
        learning_rate: of the adapters.
        head_learning_rate: of the heads.
        warmup_steps: over which both rates rise to these values.
        decay_steps: at the end, over which both fall to zero. The rates are constant between, so that a longer run can
            continue from the state before the decay.
        accumulation: forward passes in a step.
        save_steps: a state is saved after so many steps.
    """

    learning_rate: float = 3e-4
    head_learning_rate: float = 2e-4
    warmup_steps: int = 50
    decay_steps: int = 0
    accumulation: int = 2
    save_steps: int = 50

    def factor(self, step: int, steps: int) -> float:
        """What both rates are multiplied by in a step, counted from 0."""
        warm = min(1.0, (step + 1) / self.warmup_steps) if self.warmup_steps else 1.0
        left = (steps - step) / self.decay_steps if self.decay_steps else 1.0
        return warm * min(1.0, left)


def passes(examples: Sequence[Example], seed: int) -> list[tuple[int, list[list[Example]]]]:
    """Forward passes over examples, shuffled: the length of a row, and rows of examples.

    Examples that are longer than the longest row are left out.
    """
    shuffled = [*examples]
    random.Random(seed).shuffle(shuffled)
    result = []
    shorter = 0
    for length, count in LENGTHS.items():
        fitting = [each for each in shuffled if shorter < len(each.tree) <= length]
        rows = fill_rows([len(each.tree) for each in fitting], length)
        batches = [rows[first : first + count] for first in range(0, len(rows), count)]
        result += [(length, [[fitting[index] for index in row] for row in batch]) for batch in batches]
        shorter = length
    random.Random(seed).shuffle(result)
    return result


def train_steps(
    network: Network,
    examples: Sequence[Example],
    folder: Path,
    schedule: Schedule | None = None,
    *,
    seed: int = 0,
    steps: int | None = None,
    on_step: Callable[[int, int, dict[str, float]], Any] | None = None,
) -> None:
    """Trains a network on one pass over examples, and saves its state in a folder.

    A run that was interrupted continues from the saved state if the folder, the examples and the seed are the same.
    The adapters are stored in the number format of the network, and moved in float32.

    Args:
        network: with adapters that are not merged.
        examples: what it learns from.
        folder: for the state and a log, one JSON object a line.
        schedule: how the weights move.
        seed: of the order of the examples.
        steps: to stop earlier; by default all examples are read.
        on_step: called with the number of steps done, of all steps, and the losses of the last one.
    """
    schedule = schedule or Schedule()
    order = passes(examples, seed)
    total = len(order) // schedule.accumulation
    total = total if steps is None else min(steps, total)
    state = _State(network, schedule)
    done = state.load(folder / STATE)
    network.train()
    for step in range(done, total):
        begun = time.perf_counter()
        state.set_rates(schedule.factor(step, total))
        parts: dict[str, list[float]] = {}
        for length, rows in order[step * schedule.accumulation : (step + 1) * schedule.accumulation]:
            packed = pack([[each.tree for each in row] for row in rows], length)
            flat = [each for row in rows for each in row]
            found = losses(network, network(packed), list(zip(packed.offsets, flat, strict=True)))
            loss = torch.stack([WEIGHTS[name] * value for name, value in found.items()]).sum()
            (loss / schedule.accumulation).backward()
            for name, value in found.items():
                parts.setdefault(name, []).append(value.item())
        state.step()
        means = {name: sum(values) / len(values) for name, values in parts.items()}
        _log(folder, {"step": step + 1, "seconds": round(time.perf_counter() - begun, 2), **means})
        if on_step:
            on_step(step + 1, total, means)
        if (step + 1) % schedule.save_steps == 0 or step + 1 == total:
            state.save(folder / STATE, step + 1)


class _State:
    """The trained weights in float32, and their optimizer."""

    def __init__(self, network: Network, schedule: Schedule) -> None:
        for name, weight in network.named_parameters():
            weight.requires_grad_("lora_" in name or not name.startswith("body."))
        self._weights = dict(_trained(network))
        self._masters = {name: weight.detach().float().clone() for name, weight in self._weights.items()}
        groups = [
            ([name for name in self._masters if name.startswith("body.")], schedule.learning_rate),
            ([name for name in self._masters if not name.startswith("body.")], schedule.head_learning_rate),
        ]
        self._optimizer = torch.optim.AdamW(
            [{"params": [self._masters[name] for name in names], "lr": rate, "peak": rate} for names, rate in groups],
            betas=(0.9, 0.99), weight_decay=0.01,
        )  # fmt: skip

    def set_rates(self, factor: float) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = factor * group["peak"]

    def step(self) -> None:
        for name, weight in self._weights.items():
            self._masters[name].grad = None if weight.grad is None else weight.grad.float()
            weight.grad = None
        torch.nn.utils.clip_grad_norm_(self._masters.values(), 1.0)
        self._optimizer.step()
        self._copy()

    def load(self, file: Path) -> int:
        """Continues from a file; returns the number of steps done, 0 where there is none."""
        if not file.is_file():
            return 0
        saved = torch.load(file, weights_only=True)
        for name, weight in saved["weights"].items():
            self._masters[name].copy_(weight)
        self._optimizer.load_state_dict(saved["optimizer"])
        self._copy()
        return int(saved["step"])

    def save(self, file: Path, step: int) -> None:
        partial = file.with_suffix(".partial")
        torch.save({"weights": self._masters, "optimizer": self._optimizer.state_dict(), "step": step}, partial)
        partial.replace(file)

    def _copy(self) -> None:
        with torch.no_grad():
            for name, weight in self._weights.items():
                weight.copy_(self._masters[name])


def _trained(network: Network) -> Iterator[tuple[str, torch.nn.Parameter]]:
    return ((name, weight) for name, weight in network.named_parameters() if weight.requires_grad)


def _log(folder: Path, values: dict[str, Any]) -> None:
    with (folder / "log.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({name: round(value, 4) for name, value in values.items()}) + "\n")
