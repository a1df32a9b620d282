"""What training starts from: a pre-trained encoder with a new head, or a small one with random weights."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

from contradiction.decision import KEY
from contradiction.errors import InputError
from contradiction.inputs.tokenization import max_positions
from contradiction.inputs.views import CHINESE_ONLY_KEY, OPENINGS_KEY, VIEW_KEY, normalize
from contradiction.io.pretrained import (
    check_vocabulary,
    check_weights,
    load_config,
    load_model,
    load_tokenizer,
    loading,
)
from contradiction.labels import CONTRADICTION, LABELS, is_contradiction
from contradiction.training.recipe import Recipe
from contradiction.training.recipe_options import ScratchOptions

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


def initialize_model(recipe: Recipe, texts: Iterable[str] = ()) -> tuple["PreTrainedModel", "PreTrainedTokenizerBase"]:
    """The model (in float32, with the label names in its configuration) and the tokenizer at the start of training.

    Without a backbone, the tokenizer is made from ``texts``, the utterances of the training split.

    Raises:
        InputError: the backbone cannot be loaded, its weights are damaged, or its checkpoint lacks a weight of the
            encoder.
    """
    if recipe.model.backbone:
        model, tokenizer = _pretrained(recipe.model.backbone, recipe)
    else:
        model, tokenizer = _scratch(recipe, map(normalize, texts))
    setattr(model.config, VIEW_KEY, recipe.data.view)
    if recipe.augmentation.crossed:  # the replies of self-contradictions have no earlier reply
        setattr(model.config, OPENINGS_KEY, True)
    for key in (KEY, CHINESE_ONLY_KEY):  # the decision rule and the languages of the model that training starts from
        vars(model.config).pop(key, None)
    return model, tokenizer


def _pretrained(backbone: str, recipe: Recipe) -> tuple["PreTrainedModel", "PreTrainedTokenizerBase"]:
    import torch

    otherwise = (
        f"backbone {backbone!r}: neither a folder with an encoder nor one on the Hub that can be reached; --backbone "
        "names another"
    )
    with loading(backbone, otherwise):
        from transformers import AutoModelForSequenceClassification

        config = load_config(backbone)
        # A head that was trained for other labels is replaced, also if its shape fits.
        other_head = _classifies(config) and config.id2label != dict(enumerate(recipe.labels))
        if recipe.model.nli_head:
            _check_nli_head(config, backbone)
        else:
            _set_labels(config, recipe.labels)
        if recipe.model.dropout is not None:
            _set_dropout(config, recipe.model.dropout)
        # On a CPU, plain matrix products make a step of a small encoder faster than fused attention (13 to 22 %).
        attention = {} if torch.cuda.is_available() else {"attn_implementation": "eager"}
        model, report = load_model(
            AutoModelForSequenceClassification, backbone, config=config, dtype=torch.float32,
            ignore_mismatched_sizes=True, **attention,
        )  # fmt: skip
        tokens = min(recipe.model.max_length, max_positions(model) or recipe.model.max_length)
        # The tokenizer saves these settings only where its constructor gets them.
        tokenizer = load_tokenizer(backbone, model_max_length=tokens, truncation_side="left")
        # Checkpoints of masked language models have no pooler, and training fits it with the head.
        check_weights(f"backbone {backbone!r}", model, report, ["pooler", *(key.split(".")[0] for key in _head(model))])
        check_vocabulary(f"backbone {backbone!r}", model, tokenizer)
    absent = {*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])}
    if recipe.model.nli_head:
        model = _with_head_from_nli(model, recipe.labels)
    elif other_head and _head(model) - absent:
        model = _with_fresh_head(model)
    _fit_tokenizer(tokenizer, model, backbone)
    if recipe.model.freeze_embeddings:
        model.get_input_embeddings().requires_grad_(False)
    return model, tokenizer


def _set_labels(config: "PreTrainedConfig", labels: Sequence[str]) -> None:
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: number for number, label in enumerate(labels)}
    config.problem_type = None


def _check_nli_head(config: "PreTrainedConfig", backbone: str) -> None:
    labels = [str(label) for label in (config.id2label or {}).values()]
    if not _classifies(config) or sorted(labels) != sorted(LABELS["nli"]):
        raise InputError(
            f"backbone {backbone!r}: predicts {', '.join(labels)}, and model.nli_head starts from the head of an NLI "
            f"model, with {', '.join(LABELS['nli'])}; remove the option, or take another backbone"
        )


def _with_head_from_nli(model: "PreTrainedModel", labels: Sequence[str]) -> "PreTrainedModel":
    """A model for other labels whose head starts from that of an NLI model.

    A contradiction of any kind starts with the weights of the NLI label contradiction, and every other label with the
    mean of entailment and neutral. Biases are shifted so that the kinds of contradiction together start with its
    probability. A random head, in contrast, lets the encoder forget NLI before it has learned to use it.
    """
    import torch

    nli = {str(label): int(number) for label, number in (model.config.label2id or {}).items()}
    contradicts = [is_contradiction(label) for label in labels]
    kinds = sum(contradicts)
    _set_labels(model.config, labels)
    new = type(model)(model.config)
    weights, fresh = model.state_dict(), new.state_dict()
    for name, weight in weights.items():
        if name.startswith(f"{model.base_model_prefix}.") or weight.ndim == 0 or len(weight) != len(nli):
            fresh[name] = weight
            continue
        contradiction, rest = weight[nli[CONTRADICTION]], (weight[nli["entailment"]] + weight[nli["neutral"]]) / 2
        if weight.ndim == 1:
            contradiction = contradiction - math.log(kinds)
            rest = rest - math.log((len(contradicts) - kinds) / 2)
        fresh[name] = torch.stack([contradiction if flag else rest for flag in contradicts])
    new.load_state_dict(fresh)
    return new


def _classifies(config: "PreTrainedConfig") -> bool:
    return any(name.endswith("ForSequenceClassification") for name in config.architectures or ())


def _set_dropout(config: "PreTrainedConfig", rate: float) -> None:
    """Sets all dropout rates of a configuration; their names differ between architectures."""
    for key, value in config.to_dict().items():
        if ("dropout" in key or "pdrop" in key) and isinstance(value, int | float) and not isinstance(value, bool):
            setattr(config, key, rate)


def _head(model: "PreTrainedModel") -> set[str]:
    return {name for name, _ in model.named_parameters() if not name.startswith(f"{model.base_model_prefix}.")}


def _with_fresh_head(model: "PreTrainedModel") -> "PreTrainedModel":
    fresh = type(model)(model.config)
    fresh.base_model.load_state_dict(model.base_model.state_dict())
    return fresh


def _fit_tokenizer(tokenizer: "PreTrainedTokenizerBase", model: "PreTrainedModel", backbone: str) -> None:
    """Lets a tokenizer, which saves it, give the inputs that the model reads."""
    of_pair, of_one = (tokenizer.num_special_tokens_to_add(pair=pair) for pair in (True, False))
    if tokenizer.sep_token is None or tokenizer.pad_token is None or of_pair == of_one:
        raise InputError(
            f"backbone {backbone!r}: its tokenizer cannot pad, or puts nothing between two texts; name an encoder, or "
            "set model.method to 'decoder'"
        )
    if model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id
    # XLM-R, for instance, has an embedding for only one type.
    type_count = model.config.to_dict().get("type_vocab_size", 2)
    if type_count < 2 or "token_type_ids" not in signature(model.forward).parameters:
        tokenizer.model_input_names = [name for name in tokenizer.model_input_names if name != "token_type_ids"]


def _scratch(recipe: Recipe, texts: Iterable[str]) -> tuple["PreTrainedModel", "PreTrainedTokenizerBase"]:
    from transformers import BertConfig, BertForSequenceClassification

    size = recipe.model.scratch or ScratchOptions()
    tokenizer = character_tokenizer(texts, size.vocabulary, model_max_length=recipe.model.max_length,
                                    truncation_side="left")  # fmt: skip
    dropout = 0.1 if recipe.model.dropout is None else recipe.model.dropout
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=size.hidden_size,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=4 * size.hidden_size,
        max_position_embeddings=recipe.model.max_length,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        pad_token_id=tokenizer.pad_token_id,
    )
    _set_labels(config, recipe.labels)
    return BertForSequenceClassification(config), tokenizer


def character_tokenizer(texts: Iterable[str], vocabulary: int, **kwargs: Any) -> "PreTrainedTokenizerBase":
    """A BERT-style tokenizer with one token for each character that occurs at least twice in the texts.

    It has at most ``vocabulary`` tokens, with special tokens; the most frequent characters come first. The trainers of
    `tokenizers` are not used, because their token ids vary between runs on the same texts.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    normalizer, splitter = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    words: Counter[str] = Counter()
    for text, times in Counter(texts).items():  # the replies to one context repeat it
        for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)):
            words[word] += times
    counts: Counter[str] = Counter()
    for word, times in words.items():
        # A Chinese character is a word of its own; in other scripts ## marks all but the first of a word.
        for token in (word[0], *(f"##{character}" for character in word[1:])):
            counts[token] += times
    special = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    frequent = sorted(
        (token for token, count in counts.items() if count > 1), key=lambda token: (-counts[token], token)
    )
    ids = {token: index for index, token in enumerate([*special.values(), *frequent][:vocabulary])}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=special["unk"]))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    tokenizer.post_processor = processors.BertProcessing(
        (special["sep"], ids[special["sep"]]), (special["cls"], ids[special["cls"]])
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **{f"{name}_token": token for name, token in special.items()},
        **kwargs,
    )
