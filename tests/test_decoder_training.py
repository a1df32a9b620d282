"""A causal detector is trained on trees of chats, and an interrupted run continues exactly."""

import json

import pytest
import torch
from helpers.decoders import base_model

from contradiction.data.corpora.crossed import Pair, Quadruple
from contradiction.decoder.chats import ChatReader
from contradiction.decoder.network import Network, Shape
from contradiction.decoder.trees import pack
from contradiction.io.pretrained import load_tokenizer
from contradiction.training import decoder_examples as examples
from contradiction.training.decoder_loop import Schedule, passes, train_steps
from contradiction.training.decoder_objective import log_odds, losses


def messages(*texts):
    return tuple({"role": ("user", "assistant")[index % 2], "content": text} for index, text in enumerate(texts))


CAT = Quadruple(
    "t-1", "t", "history", "possession", messages("养猫吗", "养了", "周末呢"), messages("养猫吗", "没养", "周末呢"),
    "给猫洗澡", "家里没动物", 1,
)  # fmt: skip


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return base_model(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def reader(base):
    return ChatReader(load_tokenizer(base))


def network_of(base):
    torch.manual_seed(3)
    return Network(Shape(str(base), 2, rank=4))


def test_a_quadruple_is_one_tree_with_labels_order_and_evidence(reader):
    example = examples.of_item(CAT, reader)
    chats = [
        [*chat, {"role": "assistant", "content": reply}]
        for chat in (CAT.a, CAT.b)
        for reply in (CAT.reply_a, CAT.reply_b)
    ]
    separate = sum(len(reader.message(one["role"], one["content"])) for chat in chats for one in chat)
    assert len(example.tree) < 0.6 * separate
    final = [label for label, weight in example.labels.values() if weight == 1]
    assert sorted(final) == [0, 0, 3, 3]
    assert [label for label, weight in example.labels.values() if weight < 1] == [0, 0], "the replies in the chats"
    # Each contradiction is above the consistent reply of its chat, and above its own text in the other chat.
    assert len(example.order) == len({*example.order}) == 4
    for high, low in example.order:
        assert example.labels[high][0] == 3 and example.labels[low][0] == 0
    assert [right for _, _, right in example.evidence] == [1, 1]
    for node, before, right in example.evidence:
        assert before[right] in example.tree.path_to(node)


def test_pairs_contexts_and_premises_share_what_they_begin_with(reader):
    pair = Pair("p", "p", "intra-sentence", "negation", messages("忙吗"), "不忙，很闲", "不忙，没空", ("不忙", "没空"))
    example = examples.of_item(pair, reader)
    assert sorted(label for label, _ in example.labels.values()) == [0, 1] and len(example.order) == 1
    rows = [
        {"u1": "养猫吗", "b1": "养了", "u2": "叫啥", "b2": reply, "label": label}
        for reply, label in (("没养", "history"), ("咪咪", "non-contradiction"), ("你呢，叫我主人", "role-confusion"))
    ]
    example = examples.of_context(rows, reader)
    assert sorted(label for label, weight in example.labels.values() if weight == 1) == [0, 2, 3]
    assert len(example.order) == 2 and len(example.evidence) == 1
    pairs = [("他在跑步", text, label) for text, label in (("他在动", "entailment"), ("他躺着", "contradiction"))]
    [example] = examples.of_premises(pairs, reader)
    assert sorted(example.nli.values()) == [0, 2]


def test_the_order_is_lost_by_the_gap_between_the_log_odds(base, reader):
    network, example = network_of(base), examples.of_item(CAT, reader)
    with torch.no_grad():
        states = network(pack([[example.tree]]))
        found = losses(network, states, [(0, example)])
        odds = {node: log_odds(network.score(states[[node]])).item() for pair in example.order for node in pair}
    gaps = torch.tensor([odds[high] - odds[low] for high, low in example.order])
    assert set(found) == {"labels", "order", "evidence"}
    assert found["order"].item() == pytest.approx(torch.log1p(torch.exp(-gaps)).mean().item(), rel=1e-5)


def test_examples_are_learned_and_long_ones_left_out(base, reader, tmp_path):
    network = network_of(base)
    example = examples.of_item(CAT, reader)
    long = examples.of_premise("长" * 400, [("短", "neutral")], reader)
    assert len(passes([example, long], 0)) == 1
    found = []
    schedule = Schedule(3e-2, 3e-2, warmup_steps=2, decay_steps=10, accumulation=1)
    train_steps(network, [example] * 120, tmp_path, schedule, steps=40, on_step=lambda *given: found.append(given))
    first, last = found[0][2], found[-1][2]
    assert [step for step, _, _ in found] == [*range(1, len(found) + 1)]
    assert last["order"] < 0.3 * first["order"] and last["labels"] < 0.5 * first["labels"]


def test_an_interrupted_run_ends_with_the_same_weights(base, reader, tmp_path):
    chosen = [examples.of_item(CAT, reader)] * 40
    schedule = Schedule(1e-2, 1e-2, warmup_steps=2, accumulation=1, save_steps=1)

    def run(folder, stops):
        folder.mkdir()
        for stop in stops:
            network = network_of(base)

            def interrupt(step, total, _, stop=stop):
                if step == stop:
                    raise KeyboardInterrupt

            try:
                train_steps(network, chosen, folder, schedule, steps=6, on_step=interrupt)
            except KeyboardInterrupt:
                pass
        return {name: weight for name, weight in network.named_parameters() if "lora_" in name or "score" in name}

    whole, resumed = run(tmp_path / "whole", [None]), run(tmp_path / "resumed", [2, 4, None])
    for name, weight in whole.items():
        torch.testing.assert_close(weight, resumed[name], atol=1e-6, rtol=1e-5)
    log = [json.loads(line)["step"] for line in (tmp_path / "resumed" / "log.jsonl").read_text().splitlines()]
    assert sorted({*log}) == [1, 2, 3, 4, 5, 6]


def test_rates_rise_stay_and_fall():
    schedule = Schedule(warmup_steps=10, decay_steps=20)
    assert [schedule.factor(step, 100) for step in (0, 9, 50, 79, 90, 99)] == pytest.approx([0.1, 1, 1, 1, 0.5, 0.05])


def test_training_goes_on_from_a_saved_detector(base, reader, tmp_path):
    chosen, schedule = [examples.of_item(CAT, reader)] * 8, Schedule(1e-2, 1e-2, warmup_steps=1, accumulation=1)
    network = network_of(base)
    (tmp_path / "first").mkdir()
    train_steps(network, chosen, tmp_path / "first", schedule)
    network.save(tmp_path / "first")
    again = Network.load(tmp_path / "first", network.shape, merged=False)
    saved = {name: weight for name, weight in again.named_parameters() if "lora_" in name or "score" in name}
    trained = dict(network.named_parameters())
    assert all(torch.equal(weight, trained[name]) for name, weight in saved.items())
    (tmp_path / "second").mkdir()
    train_steps(again, chosen, tmp_path / "second", schedule)
    assert any(not torch.equal(weight, trained[name]) for name, weight in saved.items())
