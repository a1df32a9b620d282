"""What training starts from: a pre-trained encoder with a new head, or a small one with random weights."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.errors import InputError
from contradiction.quiet import no_model_bars
from contradiction.recipes import Recipe, Scratch

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


# The two directions of the label names, as a model's configuration takes them.
Names = dict[str, Any]


def start(
    recipe: Recipe, labels: tuple[str, ...], texts: Iterable[str]
) -> tuple["PreTrainedModel", "PreTrainedTokenizerBase"]:
    """The model and tokenizer that training starts from, in float32, with the label names in the configuration.

    Args:
        recipe: names the backbone, or the size of a small encoder.
        labels: the names of the classes, by id.
        texts: the training split's utterances; only read to make a tokenizer where there is no backbone.

    Raises:
        InputError: the backbone cannot be loaded.
    """
    names: Names = {"id2label": dict(enumerate(labels)), "label2id": {label: id for id, label in enumerate(labels)}}
    if recipe.backbone:
        model, tokenizer = _pretrained(recipe.backbone, recipe, names)
    else:
        model, tokenizer = _scratch(recipe, names, texts)
    # Which utterances the checkpoint reads travels with it.
    model.config.cdconv_view = recipe.view
    return model, tokenizer


def _limits(recipe: Recipe) -> dict[str, Any]:
    # Handed over when the tokenizer is made, because only then are they saved with it.
    return {"model_max_length": recipe.max_length, "truncation_side": "left"}


def _pretrained(backbone: str, recipe: Recipe, names: Names) -> tuple["PreTrainedModel", "PreTrainedTokenizerBase"]:
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    try:
        config = AutoConfig.from_pretrained(backbone, num_labels=len(names["id2label"]), **names)
        if recipe.dropout is not None:
            for key in ("hidden_dropout_prob", "attention_probs_dropout_prob", "mlp_dropout", "attention_dropout"):
                if hasattr(config, key):
                    setattr(config, key, recipe.dropout)
        tokenizer = AutoTokenizer.from_pretrained(backbone, **_limits(recipe))
        # A backbone that was fine-tuned before brings a head of its own; one of another size is replaced.
        with no_model_bars(quiet=Path(backbone).is_dir()):
            model = AutoModelForSequenceClassification.from_pretrained(
                backbone, config=config, dtype=torch.float32, ignore_mismatched_sizes=True
            )
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"backbone {backbone!r}: neither a folder with an encoder nor one on the Hub that can be reached ({reason})"
        ) from error
    return model, tokenizer


def _scratch(recipe: Recipe, names: Names, texts: Iterable[str]) -> tuple["PreTrainedModel", "PreTrainedTokenizerBase"]:
    from transformers import BertConfig, BertForSequenceClassification

    size = recipe.scratch or Scratch()
    tokenizer = character_tokenizer(texts, size.vocabulary, **_limits(recipe))
    dropout = 0.1 if recipe.dropout is None else recipe.dropout
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=size.hidden_size,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=4 * size.hidden_size,
        max_position_embeddings=recipe.max_length,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        pad_token_id=tokenizer.pad_token_id,
        **names,
    )
    return BertForSequenceClassification(config), tokenizer


def character_tokenizer(texts: Iterable[str], vocabulary: int, **kwargs: Any) -> "PreTrainedTokenizerBase":
    """A BERT-style tokenizer made from texts: one token a character, for those seen at least twice.

    Counted here rather than by the trainers of `tokenizers`, whose ids differ from run to run for the same texts.

    Args:
        texts: what the characters are counted in.
        vocabulary: tokens at most, special ones included; the most frequent characters are kept.
        kwargs: handed to the tokenizer.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    normalizer, splitter = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    counts: Counter[str] = Counter()
    for text in texts:
        for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)):
            # A Chinese character is a word of its own; in other scripts ## marks all but the first of a word.
            counts.update([word[0], *(f"##{character}" for character in word[1:])])
    special = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    seen = sorted((token for token, count in counts.items() if count > 1), key=lambda token: (-counts[token], token))
    ids = {token: index for index, token in enumerate([*special.values(), *seen][:vocabulary])}
    made = Tokenizer(models.WordPiece(ids, unk_token=special["unk"]))
    made.normalizer, made.pre_tokenizer = normalizer, splitter
    made.post_processor = processors.BertProcessing(
        (special["sep"], ids[special["sep"]]), (special["cls"], ids[special["cls"]])
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **{f"{name}_token": token for name, token in special.items()},
        **kwargs,
    )
