"""Fits one more head to a causal detector, which tells replies that do not fit their chat; all other weights stay."""

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from contradiction.errors import InputError
from contradiction.inference.network import Network
from contradiction.inputs.trees import pack
from contradiction.io import files
from contradiction.training.decoder_examples import Example

# The weight of the squared norm of the head, chosen on the validation splits of CDConv and the crossed chats.
PENALTY = 0.03
MOST_ITERATIONS = 300


def fit_head(
    network: Network,
    rows: Sequence[Sequence[Example]],
    file: Path,
    *,
    save_steps: int,
    on_step: Callable[[int, int], Any] | None = None,
) -> float:
    """Reads examples once, without gradients, and fits the head ``unrelated`` to the states of the labelled replies.

    The head gives the logit of one more class beside those of the labels, which stay as they are. So it is a logistic
    regression with an offset, and has one solution, which L-BFGS finds. A pass reads one row, whose examples are
    packed. A run that was interrupted continues from the file if the rows are the same. ``on_step`` is called with the
    numbers of passes done and of all.

    Returns:
        The seconds of reading and fitting, also of those before an interruption.

    Raises:
        InputError: no reply is unrelated to its chat, or the states are not finite.
    """
    begun, read = time.perf_counter(), _load(file)
    earlier = read["seconds"]
    for step in range(read["step"], len(rows)):
        packed = pack([[each.tree for each in rows[step]]])
        with torch.no_grad():
            states = network(packed)
        for offset, each in zip(packed.offsets, rows[step], strict=True):
            read["states"].append(states[[offset + node for node in each.labels]].cpu())
            read["unrelated"] += [node in each.unrelated for node in each.labels]
        if on_step:
            on_step(step + 1, len(rows))
        if (step + 1) % save_steps == 0 or step + 1 == len(rows):
            read |= {"step": step + 1, "seconds": earlier + time.perf_counter() - begun}
            with files.new_file(file) as partial:
                torch.save(read, partial)
    if not any(read["unrelated"]):
        raise InputError("no reply of the training data is unrelated to its chat; raise augmentation.context_negatives")
    network.unrelated = _fit(network, torch.cat(read["states"]), torch.tensor(read["unrelated"]))
    return float(earlier + time.perf_counter() - begun)


def _load(file: Path) -> dict[str, Any]:
    """What was read so far: the states of labelled replies, and whether each is unrelated to its chat."""
    if file.is_file():
        return dict(torch.load(file, map_location="cpu", weights_only=True))
    return {"step": 0, "seconds": 0.0, "states": [], "unrelated": []}


def _fit(network: Network, states: Tensor, unrelated: Tensor) -> nn.Linear:
    device = network.score.weight.device
    states, target = states.to(device), unrelated.float().to(device)
    head = nn.Linear(states.shape[1], 1, bias=False, device=device)
    nn.init.zeros_(head.weight)
    with torch.no_grad():
        offset = network.score(states).logsumexp(dim=1)
    optimizer = torch.optim.LBFGS(head.parameters(), max_iter=MOST_ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        odds = head(states).squeeze(1) - offset
        value = functional.binary_cross_entropy_with_logits(odds, target) + PENALTY * head.weight.square().sum()
        if not math.isfinite(value.item()):
            raise InputError(f"the loss is {value.item()}; the weights of the detector are damaged")
        value.backward()
        return value

    optimizer.step(loss)
    return head
