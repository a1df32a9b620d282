"""Cuts a multilingual backbone's vocabulary down to what a corpus needs.

Most parameters of a small multilingual encoder are embeddings of pieces that a corpus of one language never uses. They
can be left out without any training: Abdaoui et al. 2020, "Load What You Need: Smaller Versions of Multilingual BERT".

What is promised, and what is not:

- Every text of the corpus is tokenised into the same pieces as before, and the hidden states are the same to the last
  bit. So is any other text all of whose pieces are kept.
- Any other text over the corpus' characters may fall into smaller pieces, and becomes unknown nowhere but at characters
  that had no piece of their own.
- With ``keep`` or ``min_count`` the first promise holds for texts all of whose pieces are kept; how many of the corpus'
  are is counted.

Why it holds. WordPiece takes the longest piece that fits, again and again: with the piece that was taken still there,
and no new one, it takes the same. That is so for unknown words, too, if the pieces are kept that were taken before
nothing fitted. Unigram takes the most probable path of pieces: of fewer paths with unchanged scores, it stays the best.
What an unknown character costs follows from the least probable piece, and that it is unknown at all from its having no
piece of its own; so that piece is kept, and those of all single characters of the corpus.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from contradiction.errors import InputError
from contradiction.inputs.tokenization import first_position
from contradiction.io import files, manifest
from contradiction.io.pretrained import check_finite, load_config, load_model, load_tokenizer, loading
from contradiction.io.quiet import no_model_bars
from contradiction.methods.decision import KEY
from contradiction.training import leakage
from contradiction.training.record import PRUNED

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

KINDS = ("Unigram", "WordPiece")  # of tokenizer; the merges of BPE make its pieces depend on one another
BATCH = 1000  # texts tokenised together


@dataclass(frozen=True)
class Size:
    """Of a backbone: pieces (rows of the embedding), parameters, and bytes of its weights."""

    pieces: int
    parameters: int
    bytes: int


@dataclass(frozen=True)
class Pruned:
    """What pruning did: sizes before and after, texts in the corpus, and how many are tokenised as before."""

    before: Size
    after: Size
    texts: int
    unchanged: int


@dataclass
class Usage:
    """What a corpus needs: how often each piece is used, by id, and all its characters after normalisation."""

    counts: np.ndarray
    characters: set[str] = field(default_factory=set)
    texts: int = 0


def prune(
    backbone: str,
    corpus: Callable[[], Iterable[str]],
    out: str | Path,
    *,
    keep: int | None = None,
    min_count: int | None = None,
    on_texts: Callable[[int], Any] = lambda texts: None,
) -> Pruned:
    """Writes a copy of a backbone with a smaller vocabulary, in the same dtype.

    Args:
        backbone: folder or Hub id of an encoder with a fast tokenizer of one of ``KINDS``.
        corpus: gives its texts; called twice, to count and then to check.
        out: the folder to write: weights as safetensors, tokenizer, and ``prune.json``, the record.
        keep: pieces at most; the most used are kept beside those that are always kept.
        min_count: how often a piece must be used to be kept; by default once.
        on_texts: called with the number of texts done, in both passes.

    Raises:
        InputError: the backbone or the corpus is not usable, ``out`` is taken, or ``keep`` is too small.
    """
    out = Path(out)
    if keep is not None and min_count is not None:
        raise InputError("either keep or min_count says which pieces are kept, not both")
    if out.exists():
        raise InputError(f"{out}: exists already; remove it, or name another folder")
    tokenizer = _load_tokenizer(backbone)
    original = _plain(tokenizer)
    usage = _count(original, corpus(), on_texts)
    if not usage.texts:
        raise InputError("the corpus holds no text")
    model, missing = _load_model(backbone)
    always = _always(original, usage.characters) | _special(model, tokenizer)
    kept = _chosen(usage.counts, always, keep, 1 if min_count is None else min_count)
    smaller = _cut_tokenizer(tokenizer, original, kept)
    # Rows of the embedding that no piece stands for are left out as well, so row and id agree after the cut.
    before = _size(model, missing)
    _cut_model(model, kept)
    unchanged = _unchanged(original, _plain(smaller), kept, corpus(), on_texts)
    result = Pruned(before, _size(model, missing), usage.texts, unchanged)
    with files.new_folder(out) as folder, no_model_bars():
        # What the checkpoint lacks, a pooler say, was drawn at random on loading: it is no part of the backbone.
        weights = {name: value for name, value in model.state_dict().items() if name not in missing}
        model.save_pretrained(folder, state_dict=weights)
        smaller.save_pretrained(folder)
        files.write_json(
            folder / PRUNED,
            {
                "backbone": Path(backbone).resolve().name if Path(backbone).is_dir() else backbone,
                "ancestors": leakage.ancestors([backbone]),
                "keep": keep,
                "min_count": min_count,
                "pieces": {"before": result.before.pieces, "after": result.after.pieces},
                "texts": {"all": result.texts, "unchanged": result.unchanged},
            },
        )
        manifest.write(folder)
    return result


def _load_tokenizer(backbone: str) -> "PreTrainedTokenizerBase":
    with loading(backbone, f"backbone {backbone!r}: no tokenizer that can be loaded"):
        tokenizer = load_tokenizer(backbone)
    kinds = " and ".join(KINDS)
    if not tokenizer.is_fast:
        raise InputError(f"backbone {backbone!r}: has only a slow tokenizer; fast ones of the kinds {kinds} can be cut")
    kind = type(tokenizer.backend_tokenizer.model).__name__
    if kind not in KINDS:
        raise InputError(f"backbone {backbone!r}: has a tokenizer of the kind {kind}; those of {kinds} can be cut")
    return tokenizer


def _load_model(backbone: str) -> tuple["PreTrainedModel", set[str]]:
    """The model, and the names of the weights that its checkpoint lacks."""
    import transformers

    with loading(backbone, f"backbone {backbone!r}: no model that can be loaded"):
        config = load_config(backbone)
        # With its head: the output embeddings of a masked language model are cut as well.
        kind = getattr(transformers, (config.architectures or [""])[0], transformers.AutoModel)
        model, report = load_model(kind, backbone, dtype="auto")
        check_finite(f"backbone {backbone!r}", model)
    return model, set(report["missing_keys"])


def _plain(tokenizer: "PreTrainedTokenizerBase") -> "Tokenizer":
    """The tokenizer's own machine, without what it was told about lengths."""
    from tokenizers import Tokenizer

    plain = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    plain.no_truncation()
    plain.no_padding()
    return plain


def _encoded(tokenizer: "Tokenizer", texts: Iterable[str]) -> Iterator[tuple[list[str], list["Encoding"]]]:
    source = iter(texts)
    while batch := list(islice(source, BATCH)):
        yield batch, tokenizer.encode_batch(batch, add_special_tokens=False)


def _count(tokenizer: "Tokenizer", texts: Iterable[str], on_texts: Callable[[int], Any]) -> Usage:
    pieces = tokenizer.get_vocab()
    usage = Usage(np.zeros(max(pieces.values()) + 1, dtype=np.int64))
    failing = json.loads(tokenizer.to_str())["model"]["type"] == "WordPiece"
    unknown = tokenizer.token_to_id(getattr(tokenizer.model, "unk_token", "")) if failing else None
    for batch, encodings in _encoded(tokenizer, texts):
        for text, encoding in zip(batch, encodings, strict=True):
            np.add.at(usage.counts, encoding.ids, 1)
            words = _words(tokenizer, text)
            usage.characters.update(*words)
            if unknown is not None and unknown in encoding.ids:
                for word in words:
                    np.add.at(usage.counts, _before_failing(tokenizer, pieces, word), 1)
        usage.texts += len(batch)
        on_texts(len(batch))
    return usage


def _words(tokenizer: "Tokenizer", text: str) -> list[str]:
    """What the tokenizer cuts into pieces: normalised, and split where no piece may reach across."""
    if tokenizer.normalizer:
        text = tokenizer.normalizer.normalize_str(text)
    return [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)] if tokenizer.pre_tokenizer else [text]


def _before_failing(tokenizer: "Tokenizer", pieces: dict[str, int], word: str) -> list[int]:
    """The pieces that WordPiece takes of a word before nothing fits; none where something always does."""
    prefix, start = tokenizer.model.continuing_subword_prefix, 0
    taken: list[int] = []
    while start < len(word):
        tried = ((end, (prefix if start else "") + word[start:end]) for end in range(len(word), start, -1))
        start, piece = next(((end, piece) for end, piece in tried if piece in pieces), (0, ""))
        if not piece:
            return taken
        taken.append(pieces[piece])
    return []


def _always(tokenizer: "Tokenizer", characters: set[str]) -> set[int]:
    """The ids that are kept whatever the corpus uses: single characters, and what the cost of unknown ones hangs on."""
    model = json.loads(tokenizer.to_str())["model"]
    kept = {tokenizer.token_to_id(model["unk_token"])} if "unk_token" in model else set()
    marks = ["", model.get("continuing_subword_prefix") or "▁"]
    kept |= {tokenizer.token_to_id(mark + character) for mark in marks for character in characters}
    if model["type"] == "Unigram":
        scores = [score for _, score in model["vocab"]]
        kept |= {model["unk_id"], scores.index(min(scores))}
        if model.get("byte_fallback"):
            kept |= {tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in range(256)}
    return {each for each in kept if each is not None}


def _special(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> set[int]:
    """The ids of special and added tokens, those that the configuration names, and those that positions count from."""
    named = {id for _, value in _ids_of(model) for id in (value if isinstance(value, list) else [value])}
    pieces = set(tokenizer.get_vocab().values())
    return {*tokenizer.added_tokens_decoder, *(named & pieces), *(set(range(first_position(model))) & pieces)}


def _ids_of(model: "PreTrainedModel") -> list[tuple[str, Any]]:
    values = model.config.to_dict().items()
    return [(key, value) for key, value in values if key.endswith("_token_id") and value is not None]


def _chosen(counts: np.ndarray, always: set[int], keep: int | None, min_count: int) -> list[int]:
    """The ids that are kept, rising: so special tokens at the start stay where they are."""
    used = [int(each) for each in np.argsort(-counts, kind="stable") if counts[each] >= min_count]
    chosen = [each for each in used if each not in always]
    if keep is not None:
        if keep < len(always):
            raise InputError(
                f"keep is {keep}; special tokens and single characters of the corpus alone take {len(always)} pieces"
            )
        chosen = chosen[: keep - len(always)]
    return sorted(always.union(chosen))


def _cut_tokenizer(
    tokenizer: "PreTrainedTokenizerBase", original: "Tokenizer", kept: list[int]
) -> "PreTrainedTokenizerBase":
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    new_id = {old: new for new, old in enumerate(kept)}
    state = json.loads(original.to_str())
    vocabulary = state["model"]["vocab"]
    if isinstance(vocabulary, list):
        state["model"]["vocab"] = [vocabulary[old] for old in kept if old < len(vocabulary)]
        state["model"]["unk_id"] = new_id.get(state["model"]["unk_id"])
    else:
        state["model"]["vocab"] = {piece: new_id[old] for piece, old in vocabulary.items() if old in new_id}
    for added in state["added_tokens"]:
        added["id"] = new_id[added["id"]]
    _renumber(state["post_processor"], new_id)
    # Of the general class: those named after a model build their tokenizer anew and would not take all of this.
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)),
        **tokenizer.special_tokens_map,
        model_max_length=tokenizer.model_max_length,
        model_input_names=tokenizer.model_input_names,
        padding_side=tokenizer.padding_side,
        truncation_side=tokenizer.truncation_side,
    )


def _renumber(processor: dict[str, Any] | None, new_id: dict[int, int]) -> None:
    """Maps the ids in a post-processor, in place, whatever its kind: pairs of token and id, or tables of them."""
    if processor is None:
        return
    for each in processor.get("processors", ()):
        _renumber(each, new_id)
    for key in ("sep", "cls"):
        if key in processor:
            token, old = processor[key]
            processor[key] = [token, new_id[old]]
    for special in processor.get("special_tokens", {}).values():
        special["ids"] = [new_id[old] for old in special["ids"]]


def _cut_model(model: "PreTrainedModel", kept: list[int]) -> None:
    """Cuts, in place, every parameter that has a row a piece, and numbers the ids in the configuration anew."""
    import torch

    new_id = {old: new for new, old in enumerate(kept)}
    for key, value in _ids_of(model):
        setattr(model.config, key, [new_id.get(old) for old in value] if isinstance(value, list) else new_id.get(value))
    model.config.vocab_size = len(kept)
    vars(model.config).pop(KEY, None)  # a decision rule holds for the whole vocabulary
    with torch.device("meta"):
        shapes = {name: value.shape for name, value in type(model)(model.config).named_parameters()}
    rows = torch.tensor(kept)
    for name, parameter in model.named_parameters():
        # What depends on the size of the vocabulary is what has another shape in a model of another size.
        if parameter.shape != shapes[name]:
            parameter.data = parameter.data[rows].clone()


def _size(model: "PreTrainedModel", missing: set[str]) -> Size:
    weights = [each for name, each in model.named_parameters() if name not in missing]
    return Size(
        pieces=model.config.vocab_size,
        parameters=sum(each.numel() for each in weights),
        bytes=sum(each.numel() * each.element_size() for each in weights),
    )


def _unchanged(
    before: "Tokenizer", after: "Tokenizer", kept: list[int], texts: Iterable[str], on_texts: Callable[[int], Any]
) -> int:
    same = 0
    for batch, encodings in _encoded(before, texts):
        # By id: what is unknown would be shown as the text that it stands for.
        again = after.encode_batch(batch, add_special_tokens=False)
        same += sum(one.ids == [kept[id] for id in other.ids] for one, other in zip(encodings, again, strict=True))
        on_texts(len(batch))
    return same
