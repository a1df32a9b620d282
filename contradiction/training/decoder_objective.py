"""The objective of a causal detector: labels, order, evidence and natural language inference."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from contradiction.decoder.network import Network
from contradiction.labels import CONTRADICTION, LABELS, NON_CONTRADICTION
from contradiction.training.decoder_examples import CLASSES, Example

NONE = CLASSES.index(NON_CONTRADICTION)
KINDS = [index for index in range(len(CLASSES)) if index != NONE]
WEIGHTS = {"labels": 1.0, "order": 1.0, "evidence": 0.3, "nli": 0.7, "nli-2-class": 0.3}


def log_odds(logits: Tensor) -> Tensor:
    """The log-odds of a contradiction of any kind, shape (replies,), from the logits of the four labels."""
    return torch.logsumexp(logits[:, KINDS], dim=1) - logits[:, NONE]


def losses(network: Network, states: Tensor, examples: Sequence[tuple[int, Example]]) -> dict[str, Tensor]:
    """The losses of packed examples by name, without those that no example has; their ``WEIGHTS`` add them up.

    Args:
        network: its heads are applied.
        states: of all tokens, shape (tokens, hidden).
        examples: each with its place among the tokens.
    """
    results = {}
    labelled = [(start + node, *given) for start, each in examples for node, given in each.labels.items()]
    if labelled:
        nodes, labels, weights = map(list, zip(*labelled, strict=True))
        weight = states.new_tensor(weights)
        each_loss = functional.cross_entropy(network.score(states[nodes]), _ids(labels, states), reduction="none")
        results["labels"] = (each_loss * weight).sum() / weight.sum()
    order = [(start + high, start + low) for start, each in examples for high, low in each.order]
    if order:
        high, low = map(list, zip(*order, strict=True))
        gaps = log_odds(network.score(states[high])) - log_odds(network.score(states[low]))
        results["order"] = functional.softplus(-gaps).mean()
    pointers = [
        functional.cross_entropy(
            network.point(states[start + node], states[[start + place for place in before]])[None],
            _ids([right], states),
        )
        for start, each in examples
        for node, before, right in each.evidence
    ]
    if pointers:
        results["evidence"] = torch.stack(pointers).mean()
    pairs = [(start + node, label) for start, each in examples for node, label in each.nli.items()]
    if pairs:
        nodes, labels = map(list, zip(*pairs, strict=True))
        results["nli"] = functional.cross_entropy(network.nli(states[nodes]), _ids(labels, states))
        contradicts = states.new_tensor([label == LABELS["nli"].index(CONTRADICTION) for label in labels])
        odds = log_odds(network.score(states[nodes]))
        results["nli-2-class"] = functional.binary_cross_entropy_with_logits(odds, contradicts)
    return results


def _ids(labels: Sequence[int], states: Tensor) -> Tensor:
    return torch.tensor(labels, device=states.device)
