"""A causal detector is trained on trees of chats, and an interrupted run continues exactly."""

from types import SimpleNamespace

import pytest
import torch
from datasets import ClassLabel, Dataset
from helpers import processes
from helpers.chats import chat
from helpers.decoders import base_model
from helpers.runs import scalars, train

import contradiction
from contradiction.data.corpora.crossed import FOLDERS, Pair, Quadruple, read_batch
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inference.network import Network, Shape
from contradiction.inputs.trees import ChatReader, pack
from contradiction.io.files import read_json, write_json
from contradiction.io.pretrained import load_tokenizer, load_weights
from contradiction.methods.loading import fit_rule, load_classifier
from contradiction.training import decoder_examples as examples
from contradiction.training.augmentation import labelled_rows
from contradiction.training.decoder_examples import log_odds, losses
from contradiction.training.decoder_trainer import examples_of, passes, train_steps
from contradiction.training.recipe import Recipe, load_recipe
from contradiction.training.recipe_options import OptimizerOptions
from contradiction.training.run import Run

CAT = Quadruple(
    "t-1", "t", "history", "possession",
    tuple(chat("养猫吗", "养了", "周末呢")), tuple(chat("养猫吗", "没养", "周末呢")), "给猫洗澡", "家里没动物", 1,
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
        assert pack([[example.tree]]).attention_mask[0, 0, node, before[right]]


def test_pairs_contexts_and_premises_share_what_they_begin_with(base, reader):
    pair = Pair(
        "p", "p", "intra-sentence", "negation", tuple(chat("忙吗")), "不忙，很闲", "不忙，没空", ("不忙", "没空")
    )
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
    [example] = examples.of_premises([("他在跑步", "他在动", "non-contradiction")], reader)
    network = network_of(base)
    assert set(losses(network, network(pack([[example.tree]])), [(0, example)])) == {"nli-2-class"}


def test_the_order_is_lost_by_the_gap_between_the_log_odds(base, reader):
    network, example = network_of(base), examples.of_item(CAT, reader)
    with torch.no_grad():
        states = network(pack([[example.tree]]))
        found = losses(network, states, [(0, example)])
        odds = {node: log_odds(network.score(states[[node]])).item() for pair in example.order for node in pair}
    gaps = torch.tensor([odds[high] - odds[low] for high, low in example.order])
    assert set(found) == {"labels", "order", "evidence"}
    assert found["order"].item() == pytest.approx(torch.log1p(torch.exp(-gaps)).mean().item(), rel=1e-5)


def options(rate, warmup=0.1, batch_size=16):
    return OptimizerOptions(learning_rate=rate, head_learning_rate=rate, warmup_ratio=warmup, batch_size=batch_size)


def test_examples_are_learned_and_long_ones_left_out(base, reader, tmp_path, caplog):
    network = network_of(base)
    example = examples.of_item(CAT, reader)
    [long] = examples.of_premises([("长" * 400, "短", "neutral")], reader)
    assert len(passes([example, long], 0)) == 1 and "1 examples of more than 1024 tokens" in caplog.text
    found = []
    train_steps(network, [example] * 240, tmp_path / "s", options(3e-2), on_step=lambda *given: found.append(given))
    assert [step for step, *_ in found] == [*range(1, len(found) + 1)] and len(found) > 20
    assert found[-1][2] < 0.4 * found[0][2]


def test_an_interrupted_run_ends_with_the_same_weights(base, reader, tmp_path):
    chosen = [examples.of_item(CAT, reader)] * 40

    def run(file, stops):
        for stop in stops:
            network = network_of(base)

            def interrupt(step, total, *_, stop=stop):
                if step == stop:
                    raise KeyboardInterrupt

            try:
                train_steps(network, chosen, file, options(1e-2), save_steps=1, on_step=interrupt)
            except KeyboardInterrupt:
                pass
        return {name: weight for name, weight in network.named_parameters() if "lora_" in name or "score" in name}

    whole, resumed = run(tmp_path / "whole", [None]), run(tmp_path / "resumed", [2, 4, None])
    for name, weight in whole.items():
        torch.testing.assert_close(weight, resumed[name], atol=1e-6, rtol=1e-5)
    with pytest.raises(InputError, match="other: its weights are not those of"):
        train_steps(network_of(base_model(tmp_path / "other", seed=1)), chosen, tmp_path / "whole", options(1e-2))


def test_a_head_that_no_example_trains_stays_as_it_is(base, reader, tmp_path):
    network = network_of(base)
    before = network.nli.weight.clone(), network.score.weight.clone()
    train_steps(network, [examples.of_item(CAT, reader)] * 8, tmp_path / "s", options(1e-2))
    assert torch.equal(network.nli.weight, before[0]) and not torch.equal(network.score.weight, before[1])


def test_a_loss_that_is_not_finite_stops_the_run(base, reader, tmp_path):
    network = network_of(base)
    network.score.weight.data.fill_(float("nan"))
    with pytest.raises(InputError, match="step 1: the loss is nan"):
        train_steps(network, [examples.of_item(CAT, reader)], tmp_path / "s", options(1e-2))


@pytest.fixture(scope="module")
def recipe(base):
    return Recipe.of(
        name="tiny-decoder", config="4-class", view="flatten", method="decoder", backbone=str(base), num_layers=2,
        lora_rank=4, epochs=1, learning_rate=1e-2, train_fraction=0.2, crossed=True, crossed_batches=["w9"],
    )  # fmt: skip


def test_a_recipe_trains_a_detector_with_a_rule_and_another_run_continues_from_it(
    recipe, base, sample_repo, tmp_path, monkeypatch, caplog
):
    monkeypatch.setenv("CDCONV_BASE", str(base))
    monkeypatch.setattr("contradiction.runs.fast_precision", lambda recipe: recipe.with_changes(precision="bf16"))
    fit = "contradiction.training.run.fit_rule"  # in the precision of the training
    monkeypatch.setattr(fit, lambda *given, precision: {"bf16": fit_rule}[precision](*given))
    first = contradiction.train(recipe, sample_repo, tmp_path / "first", backbone="somebody/chat")
    assert f"somebody/chat is read from {base}, which CDCONV_BASE names" in caplog.text
    card = (first / "README.md").read_text(encoding="utf-8")
    assert "low-rank adapters of rank 4 on the first 2 layers" in card and "`transformers` alone cannot load it" in card
    verdict = ContradictionDetector.from_pretrained(first)(chat("养猫吗", "养了", "周末呢", "家里没动物"))
    record = read_json(first / "run.json")
    assert verdict.label and record["request"]["crossed"] and record["parameters"] > 0
    assert record["base_folder"].startswith(f"{base.name}@") and read_json(first / "decoder.json")["base"] != str(base)
    assert load_classifier(first).rule.threshold is not None
    trained = load_weights(first / "heads.safetensors")
    # A rate close to zero shows where the second run started.
    further = recipe.with_changes(backbone=str(first), learning_rate=1e-12, crossed=False, crossed_batches=[])
    with monkeypatch.context() as patch, pytest.raises(InputError, match="other: its weights are not those of .*chat"):
        patch.setenv("CDCONV_BASE", str(base_model(tmp_path / "other", seed=1)))
        train(further, sample_repo, tmp_path / "on-another-base")
    with pytest.raises(InputError, match="qwen-1.5b: has adapters of rank 16 on 20 layers"):
        contradiction.train(recipe, sample_repo, tmp_path / "shipped", backbone="qwen-1.5b")
    write_json(first / "run.json", {**record, "languages": ["zh", "en"]})
    again = train(further, sample_repo, tmp_path / "second")
    assert read_json(again / "run.json")["ancestors"][0]["model"] == "first"
    assert read_json(again / "run.json")["languages"] == ["zh", "en"]
    for name, weight in load_weights(again / "heads.safetensors").items():
        torch.testing.assert_close(weight, trained[name], atol=1e-5, rtol=0)


def test_context_negatives_are_replies_of_other_items_below_each_contradiction_of_the_chat(reader):
    alone, example = examples.of_item(CAT, reader), examples.of_item(CAT, reader, ["周五去爬山", "我在看书"])
    added = example.labels.keys() - alone.labels.keys()
    assert len(added) == 2 and all(example.labels[node] == (0, 1.0) for node in added)
    [bad] = {high for high, low in example.order if low in added}
    assert {pair for pair in example.order if pair[1] in added} == {(bad, node) for node in added}
    chat_end = len([token for message in CAT.a for token in reader.message(message["role"], message["content"])]) - 1
    mask = pack([[example.tree]]).attention_mask[0, 0]
    assert example.labels[bad][0] == 3 and all(mask[node, chat_end] for node in (bad, *added)), "after the first chat"


def test_a_run_reads_rows_by_context_crossed_chats_and_pairs(recipe, sample_repo, base, tmp_path, monkeypatch):
    run = Run(recipe.with_changes(epochs=2, train_fraction=1.0), sample_repo, tmp_path / "out")
    found = examples_of(run, str(base))
    rows = labelled_rows(run.splits["train"], run.recipe).to_list()
    contexts = {(row["u1"], row["b1"], row["u2"]) for row in rows}
    items = read_batch(FOLDERS["crossed"] / "w9.jsonl")
    assert len(found) == 2 * len(contexts) + len(items)
    assert sum(weight == 1 for each in found[: len(contexts)] for _, weight in each.labels.values()) == len(rows)
    negatives = run.recipe.with_changes(context_negatives=2)
    with_negatives = examples_of(Run(negatives, sample_repo, tmp_path), str(base))
    more_labels = [len(new.labels) - len(old.labels) for new, old in zip(with_negatives, found, strict=True)]
    assert all(old.labels.items() <= new.labels.items() for new, old in zip(with_negatives, found, strict=True))
    assert set(more_labels[: 2 * len(contexts)]) == {0} and set(more_labels[2 * len(contexts) :]) <= {1, 2}
    # Of some pairs, it is only known that they do not contradict.
    texts, labels = [*map(str, range(len(rows)))], [number % 4 - 1 for number in range(len(rows))]
    pairs = Dataset.from_dict({"premise": texts, "hypothesis": texts, "label": labels})
    pairs = pairs.cast_column("label", ClassLabel(names=["entailment", "neutral", "contradiction"]))
    monkeypatch.setattr("contradiction.training.decoder_trainer.load_split", lambda *given: pairs)
    recipe = run.recipe.with_changes(nli="nli")
    more = examples_of(Run(recipe, sample_repo, tmp_path), str(base))[len(found) :]
    assert [label for each in more for label in each.nli.values()].count(-100) == labels.count(-1)
    with pytest.raises(InputError, match="nli_pairs_per_row: 2 for each of"):
        examples_of(Run(recipe.with_changes(nli_pairs_per_row=2), sample_repo, tmp_path), str(base))


def test_two_processes_train_the_same_weights_as_one(base, sample_repo, tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f'method = "decoder"\nconfig = "4-class"\nview = "flatten"\nbackbone = "{base}"\nnum_layers = 2\n'
        "lora_rank = 4\nepochs = 1\nlearning_rate = 3e-3\ntrain_fraction = 0.3\ncrossed = true\n"
        'crossed_batches = ["w9"]\n',
        encoding="utf-8",
    )
    one = train(load_recipe(recipe), sample_repo, tmp_path / "one", track="tensorboard")
    both = processes.start_two("train", recipe, "--data", sample_repo, "--out", tmp_path / "two")
    stderr = [process.communicate(timeout=600)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], stderr
    assert read_json(tmp_path / "two" / "run.json")["processes"] == 2
    for file in ("adapter_model.safetensors", "heads.safetensors"):
        alone, shared = load_weights(one / file), load_weights(tmp_path / "two" / file)
        assert alone.keys() == shared.keys()
        for name, weight in alone.items():
            torch.testing.assert_close(shared[name], weight, atol=1e-4, rtol=0)
    curves = scalars(tmp_path / "one.tracking")
    assert [value for _, value in curves["train/loss"]][-1] < curves["train/loss"][0][1]
    assert len(curves["train/learning_rate"]) == len(curves["train/loss"])


def test_a_step_with_too_few_passes_for_the_processes_is_rejected(base, reader, tmp_path, monkeypatch):
    eight = SimpleNamespace(num_processes=8, process_index=0, is_main_process=True)
    monkeypatch.setattr("contradiction.training.decoder_trainer.processes", lambda: eight)
    with pytest.raises(InputError, match="batch_size 16: each of 8 processes .* set it to 128 or more"):
        train_steps(network_of(base), [examples.of_item(CAT, reader)], tmp_path / "s", options(1e-2))
