"""What a causal detector learns from: trees of chats whose judged replies have labels, an order and evidence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from contradiction.conversation import ASSISTANT, alternating
from contradiction.data.corpora.crossed import Pair, Quadruple
from contradiction.inference.network import Network, point
from contradiction.inputs.trees import ChatReader, Tree
from contradiction.inputs.views import CONVERSATION
from contradiction.labels import CONTRADICTION, HISTORY, LABELS, NON_CONTRADICTION, is_contradiction
from contradiction.training.losses import UNLABELLED

CLASSES = LABELS["4-class"]
NONE = CLASSES.index(NON_CONTRADICTION)
KINDS = [index for index in range(len(CLASSES)) if index != NONE]
WEIGHTS = {"labels": 1.0, "order": 1.0, "evidence": 0.3, "nli": 0.7, "nli-2-class": 0.3}
EARLIER = 0.5  # the weight of a reply that the chat goes on from, and that is taken for consistent
MOST_HYPOTHESES = 6  # of one premise in a tree


@dataclass
class Example:
    """Chats that are read together.

    Attributes:
        tree: their tokens.
        labels: node at the end of a reply -> class id and weight.
        order: pairs of nodes, of which the first is contradictory and the second is not.
        evidence: the node of a contradicting reply, the nodes of the messages before it, and the position of the
            contradicted one among them.
        nli: node at the end of a hypothesis -> class id of ``nli``, or ``UNLABELLED`` if it just does not contradict.
    """

    tree: Tree = field(default_factory=Tree)
    labels: dict[int, tuple[int, float]] = field(default_factory=dict)
    order: list[tuple[int, int]] = field(default_factory=list)
    evidence: list[tuple[int, tuple[int, ...], int]] = field(default_factory=list)
    nli: dict[int, int] = field(default_factory=dict)


def of_item(item: Quadruple | Pair, reader: ChatReader, unrelated: Sequence[str] = ()) -> Example:
    """The replies of a crossed quadruple to both chats, or those of a pair to its chat.

    ``unrelated`` are replies of other items. They follow the first chat, and contradict nothing in it.
    """
    example = Example()
    nodes: dict[bool, list[tuple[str, str, int]]] = {True: [], False: []}
    for row in item.judged():
        node = _add(example, reader, [*row.messages], row.reply, row.label or NON_CONTRADICTION, row.evidence or ())
        nodes[is_contradiction(row.label or "")].append((str(row.messages), row.reply, node))
    messages = next(item.judged()).messages
    for text in unrelated:
        node = _add(example, reader, [*messages], text, NON_CONTRADICTION, ())
        nodes[False].append((str(messages), text, node))
    for chat, reply, bad in nodes[True]:
        # Compared with the other reply to this chat, and with this reply to the other chat.
        example.order += [(bad, good) for other, text, good in nodes[False] if chat == other or reply == text]
    return example


def of_context(rows: Sequence[Mapping[str, Any]], reader: ChatReader) -> Example:
    """The replies to one context of CDConv; rows have the columns of the data set and ``label`` by name."""
    example, nodes = Example(), []
    for row in rows:
        *before, reply = (str(row[name]) for name in CONVERSATION)
        evidence = (1,) if row["label"] == HISTORY else ()
        nodes.append((row["label"], _add(example, reader, alternating(before), reply, row["label"], evidence)))
    example.order = [
        (bad, good)
        for label, bad in nodes
        for other, good in nodes
        if is_contradiction(label) > is_contradiction(other)
    ]
    return example


def of_premises(pairs: Iterable[tuple[str, str, str]], reader: ChatReader) -> list[Example]:
    """Pairs of premise, hypothesis and label of ``nli`` or non-contradiction, by premise, and all said by the bot."""
    ids = {NON_CONTRADICTION: UNLABELLED, **{name: number for number, name in enumerate(LABELS["nli"])}}
    groups: dict[str, list[tuple[str, str]]] = {}
    for premise, text, label in pairs:
        groups.setdefault(premise, []).append((text, label))
    examples = []
    for premise, group in groups.items():
        for number, (text, label) in enumerate(group):
            if number % MOST_HYPOTHESES == 0:
                examples.append(example := Example())
                start = example.tree.add(reader.message(ASSISTANT, premise))
            example.nli[example.tree.add(reader.message(ASSISTANT, text), start)] = ids[label]
    return examples


def _add(
    example: Example, reader: ChatReader, messages: Sequence[Mapping[str, str]], reply: str, label: str,
    evidence: Sequence[int],
) -> int:  # fmt: skip
    """Adds a judged reply to a chat, and returns the node at its end."""
    node, ends = -1, []
    for message in messages:
        node = example.tree.add(reader.message(message["role"], message["content"]), node)
        ends.append(node)
        if message["role"] == ASSISTANT:
            example.labels.setdefault(node, (NONE, EARLIER))
    node = example.tree.add(reader.message(ASSISTANT, reply), node)
    example.labels[node] = CLASSES.index(label), 1.0
    if evidence:
        example.evidence.append((node, tuple(ends), evidence[0]))
    return node


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
            point(network.query(states[start + node]), network.key(states[[start + place for place in before]]))[None],
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
        if {*labels} != {UNLABELLED}:  # which is ignored, and the mean over nothing is NaN
            results["nli"] = functional.cross_entropy(network.nli(states[nodes]), _ids(labels, states))
        contradicts = states.new_tensor([label == LABELS["nli"].index(CONTRADICTION) for label in labels])
        odds = log_odds(network.score(states[nodes]))
        results["nli-2-class"] = functional.binary_cross_entropy_with_logits(odds, contradicts)
    return results


def _ids(labels: Sequence[int], states: Tensor) -> Tensor:
    return torch.tensor(labels, device=states.device)
