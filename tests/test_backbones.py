"""Backbones: every encoder of `transformers` trains, stays a plain checkpoint, and scores the same everywhere."""

import re
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
import torch
from helpers.chats import chat, texts_of
from helpers.hostile_models import with_weights, without
from helpers.rules import uncalibrated
from helpers.runs import train
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedTokenizerFast,
    pipeline,
)

from contradiction import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inference.torch_backend import TorchBackend
from contradiction.labels import LABELS
from contradiction.methods.checkpoint import CheckpointClassifier
from contradiction.training.initialize import character_tokenizer, initialize_model
from contradiction.training.recipe import Recipe

POSITIONS = 128
INPUTS = ["input_ids", "token_type_ids", "attention_mask"]


def word_piece(texts, special):
    """As in BERT: one piece per character."""
    return character_tokenizer(texts, 6000)


def byte_pairs(texts, special):
    """As in RoBERTa and GPT-2: bytes, and the most frequent byte pairs."""
    made, splitter = Tokenizer(models.BPE()), pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.pre_tokenizer = splitter
    trainer = trainers.BpeTrainer(vocab_size=600, **_options(special), initial_alphabet=splitter.alphabet())
    return _trained(made, trainer, texts, special)


def unigram(texts, special):
    """As in XLM-R and DeBERTa: pieces with log probabilities."""
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=4000, **_options(special), unk_token=special["unk"])
    return _trained(made, trainer, texts, special, model_input_names=INPUTS)


def _options(special):
    return {"special_tokens": [*dict.fromkeys(special.values())], "show_progress": False}


def _trained(made, trainer, texts, special, **options):
    made.train_from_iterator(texts, trainer)
    first, last = special["cls"], special["sep"]
    middle = [last, last] if first == "<s>" else [last]
    made.post_processor = processors.TemplateProcessing(
        single=[first, "$A", last],
        pair=[first, "$A", *middle, "$B:1", f"{last}:1"],
        special_tokens=[(token, made.token_to_id(token)) for token in (first, last)],
    )
    names = {f"{name}_token": token for name, token in special.items()}
    return PreTrainedTokenizerFast(tokenizer_object=made, **names, **options)


BERT = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
ROBERTA = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>", "cls": "<s>", "sep": "</s>"}
DEBERTA = {"relative_attention": True, "position_buckets": 8, "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0}
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": POSITIONS,
}
FOUR = LABELS["4-class"]

# Name -> the model type, its configuration besides the sizes, its tokenizer with special tokens.
FAMILIES = {
    "bert": ("bert", {}, word_piece, BERT),
    "roberta": ("roberta", {"type_vocab_size": 1}, byte_pairs, ROBERTA),
    "ernie": ("ernie", {"use_task_id": True}, word_piece, BERT),
    "xlm-roberta": ("xlm-roberta", {"type_vocab_size": 1}, unigram, ROBERTA),
    "electra": ("electra", {"embedding_size": 8}, word_piece, BERT),
    "deberta-v2": ("deberta-v2", DEBERTA, unigram, BERT),
    "modernbert": ("modernbert", {"global_attn_every_n_layers": 2, "local_attention": 8}, byte_pairs, BERT),
    "albert": ("albert", {"embedding_size": 8}, unigram, BERT),
    "distilbert": ("distilbert", {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}, word_piece, BERT),
    "mpnet": ("mpnet", {}, byte_pairs, ROBERTA),
}


@cache
def tokenizer_of(family, texts):
    """The tokenizer of a family, made once, because that takes most of the time of a tiny backbone."""
    _, _, make, special = FAMILIES[family]
    return make(texts, special)


def backbone(family, texts, folder, classes=None, **changes):
    """Writes a tiny random encoder, or a classifier with `classes` classes, and its tokenizer."""
    kind, config, _, special = FAMILIES[family]
    tokenizer = tokenizer_of(family, texts)
    ids = {
        f"{name}_token_id": tokenizer.convert_tokens_to_ids(special[name]) if name in special else None
        for name in ("pad", "bos", "eos")
    }
    made = AutoConfig.for_model(kind, **(SIZES | {"vocab_size": len(tokenizer)} | ids | config | changes))
    torch.manual_seed(5)
    if classes:
        made.id2label, made.label2id = dict(enumerate(classes)), {label: index for index, label in enumerate(classes)}
    (AutoModelForSequenceClassification if classes else AutoModel).from_config(made).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def recipe(backbone, **changes):
    values = {"name": "any", "view": "flatten", "config": "4-class", "epochs": 1, "batch_size": 64}
    return Recipe.of(**values | {"learning_rate": 1e-3, "backbone": backbone} | changes)


@pytest.fixture(scope="module")
def texts(sample_rows):
    return tuple(chain.from_iterable(map(texts_of, sample_rows)))


@pytest.fixture(scope="module")
def chats(sample_rows):
    return [chat(*texts_of(row)) for row in sample_rows[:8]]


@pytest.fixture(scope="module", params=FAMILIES)
def trained(request, texts, sample_repo, tmp_path_factory):
    """A detector of each family, trained for one epoch by the training loop of the project."""
    folder = tmp_path_factory.mktemp("backbones")
    return train(recipe(backbone(request.param, texts, folder / "in")), data=sample_repo, out=folder / "out")


@pytest.fixture(scope="module")
def detector(trained):
    return ContradictionDetector.from_pretrained(trained)


def test_a_plain_pipeline_gives_the_scores_of_the_detector(trained, detector, sample_rows, chats):
    inputs = [detector.classifier.model_input(row) for row in sample_rows[: len(chats)]]
    pipeline_scores = pipeline("text-classification", model=str(trained), top_k=None)(inputs, truncation=True)
    for verdict, scores in zip(detector.batch(chats), pipeline_scores, strict=True):
        assert verdict.checked
        # The detector calibrates its scores, which a pipeline does not.
        raw = uncalibrated(detector.classifier, verdict.scores)
        assert raw == pytest.approx({score["label"]: score["score"] for score in scores}, abs=1e-4)


def test_padding_does_not_change_scores(detector, chats):
    short = chat("好", "好", "好", "好的")
    for one, verdict in zip([short, *chats], detector.batch([short, *chats]), strict=True):
        assert verdict.scores == pytest.approx(detector(one).scores, abs=1e-5)


def test_long_text_is_truncated_from_the_left_and_reported(detector):
    tail = "一" * POSITIONS

    def judged(first, last):
        return detector(chat(first + tail, "好", "你是几月", last))

    verdict = judged("生日", "好的")
    assert not verdict.checked
    assert re.fullmatch(r"\d+ tokens of the history were not read: the model reads at most \d+", verdict.reason)
    assert judged("庆祝", "好的").scores == verdict.scores
    assert judged("生日", "蛋糕").scores != verdict.scores


def test_the_tokenizer_gives_the_maximum_input_length(detector):
    model = detector.classifier.backend.model
    behind = model.config.pad_token_id + 1 if model.config.model_type in ("roberta", "xlm-roberta", "mpnet") else 0
    assert detector.classifier.backend.tokenizer.model_max_length == POSITIONS - behind
    tokens = torch.full((1, POSITIONS - behind), detector.classifier.backend.tokenizer.sep_token_id)
    assert torch.isfinite(model(tokens, attention_mask=torch.ones_like(tokens)).logits).all()


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_rows_longer_than_the_model_reads_can_be_trained_on(family, texts, sample_repo, tmp_path):
    short = recipe(backbone(family, texts, tmp_path / "in", max_position_embeddings=24))
    detector = ContradictionDetector.from_pretrained(train(short, data=sample_repo, out=tmp_path / "out"))
    assert detector.classifier.backend.tokenizer.model_max_length in (24, 22)
    assert not detector(chat("你是几月份生的", "我是十二月生的", "你的生日是几月", "我的生日是十二月")).checked


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("classes", [("entailment", "neutral", "contradiction"), ("a", "b", "c", "d")])
def test_a_head_for_other_labels_is_replaced_without_a_warning(family, classes, texts, tmp_path, caplog):
    folder = backbone(family, texts, tmp_path, classes)
    before = AutoModelForSequenceClassification.from_pretrained(folder)
    caplog.clear()
    after, _ = initialize_model(recipe(folder))
    assert caplog.messages == []
    assert tuple(after.config.id2label.values()) == FOUR
    encoder, head = after.base_model_prefix, dict(before.named_parameters())
    for name, weights in after.named_parameters():
        same = weights.shape == head[name].shape and torch.equal(weights, head[name])
        # The bias of every head starts at zero.
        if name.startswith(f"{encoder}."):
            assert same, name
        elif weights.ndim > 1:
            assert not same, name


def test_a_head_for_the_same_labels_is_kept(texts, tmp_path):
    folder = backbone("roberta", texts, tmp_path, FOUR)
    before, (after, _) = (
        AutoModelForSequenceClassification.from_pretrained(folder),
        initialize_model(recipe(folder)),
    )
    for (name, old), new in zip(before.named_parameters(), after.parameters(), strict=True):
        assert torch.equal(old, new), name


def test_a_tokenizer_that_puts_nothing_between_two_texts_is_rejected(texts, tmp_path):
    folder = backbone("bert", texts, tmp_path)
    plain = PreTrainedTokenizerFast.from_pretrained(folder)
    plain.backend_tokenizer.post_processor = processors.Sequence([])
    plain.save_pretrained(folder)
    with pytest.raises(InputError, match="puts nothing between two texts; name an encoder"):
        initialize_model(recipe(folder))


@pytest.mark.parametrize(
    "change",
    [
        without("layer.1.output"),
        with_weights(lambda old: {f"wrapped.{name}": value for name, value in old.items()}),
        with_weights(lambda old: old | {"embeddings.word_embeddings.weight": torch.zeros(7, 16)}),
    ],
    ids=["a layer is missing", "other names", "another shape"],
)
def test_a_checkpoint_without_the_whole_encoder_raises_one_clear_error(change, texts, tmp_path):
    folder = backbone("bert", texts, tmp_path)
    change(Path(folder))
    with pytest.raises(
        InputError, match=r"^backbone .*: its checkpoint lacks \d+ weights, for instance bert\."
    ) as error:
        initialize_model(recipe(folder))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("family", ["bert", "albert", "distilbert", "modernbert", "deberta-v2"])
@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_the_dropout_of_a_recipe_replaces_all_dropouts_of_the_backbone(family, rate, texts, tmp_path):
    model, tokenizer = initialize_model(recipe(backbone(family, texts, tmp_path), dropout=rate))
    batch = tokenizer(["你是几月"], ["生日"], return_tensors="pt")
    with torch.no_grad():
        once, again = (model.train()(**batch).logits for _ in range(2))
    assert torch.equal(once, again) == (rate == 0.0)


def test_a_unigram_model_does_not_judge_a_reply_of_unknown_characters(texts, tmp_path):
    model, tokenizer = initialize_model(recipe(backbone("xlm-roberta", texts, tmp_path)))
    verdict = ContradictionDetector(CheckpointClassifier(TorchBackend(model, tokenizer)))(
        chat("你好", "你好", "你好", "ᚠᚢᚦ")
    )
    assert verdict.reason == "the reply holds no word that the model knows"


# Training that starts from the head of an NLI model.


@pytest.fixture(scope="module")
def nli(encoder, tmp_path_factory):
    """An NLI model with equal entailment and neutral scores, so that only the contradiction counts."""
    folder = tmp_path_factory.mktemp("nli") / "model"
    names = ("neutral", "contradiction", "entailment")  # the order must not matter
    model = AutoModelForSequenceClassification.from_pretrained(
        encoder, id2label=dict(enumerate(names)), label2id={name: number for number, name in enumerate(names)}
    )
    with torch.no_grad():
        model.classifier.weight.normal_(generator=torch.Generator().manual_seed(0))
        model.classifier.weight[2] = model.classifier.weight[0]
        model.classifier.bias.copy_(torch.tensor([0.3, -0.2, 0.3]))
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(encoder).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("config", ["4-class", "2-class"])
def test_a_contradiction_starts_with_its_probability_under_the_nli_model(nli, config):
    model, tokenizer = initialize_model(recipe(str(nli), config=config, nli_head=True))
    before = AutoModelForSequenceClassification.from_pretrained(nli)
    inputs = tokenizer(["我养了一只猫", "我天天喝茶"], ["我没养过猫呀", "我不喝茶"], padding=True, return_tensors="pt")
    with torch.no_grad():
        probabilities, expected = model.eval()(**inputs).logits.softmax(1), before.eval()(**inputs).logits.softmax(1)
    assert torch.allclose(probabilities[:, 1:].sum(1), expected[:, 1], atol=1e-5)
    assert expected[:, 1].std() > 0
    assert list(model.config.id2label.values()) == list(LABELS[config])


def test_the_head_of_another_model_is_rejected(encoder, random_model):
    for folder in (encoder, random_model("4-class")):
        with pytest.raises(InputError, match=r"model\.nli_head .*entailment, neutral, contradiction"):
            initialize_model(recipe(str(folder), nli_head=True))
