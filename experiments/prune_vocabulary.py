"""Cuts the vocabulary of a multilingual encoder to the pieces that a corpus needs.

    python -m experiments.prune_vocabulary intfloat/multilingual-e5-small --corpus chats.txt --out e5-small-zh

Most parameters of a small multilingual encoder are embeddings of pieces that a corpus of one language never uses. They
can be removed without training: Abdaoui et al. 2020, "Load What You Need: Smaller Versions of Multilingual BERT".

If all pieces of a text remain, the smaller tokenizer splits the text into the same pieces, and the hidden states are
exactly the same. This holds for all texts of the corpus. Another text with only characters of the corpus may be split
into smaller pieces. Only characters that never had a piece become unknown.

The tokenizer must be a fast one of the kind Unigram, as in XLM-R. It takes the most probable sequence of pieces, which
stays the most probable among fewer. The cost of an unknown character depends on the least probable piece, which
therefore always remains.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contradiction import cli
from contradiction.commands.common import counting, show
from contradiction.decision import KEY
from contradiction.errors import InputError
from contradiction.inputs.tokenization import first_position
from contradiction.inputs.views import normalize
from contradiction.io import files, manifest
from contradiction.io.environment import no_model_bars
from contradiction.io.hub import model_name
from contradiction.io.pretrained import check_finite, load_config, load_model, load_tokenizer, loading
from contradiction.io.tables import Table
from contradiction.training import leakage, record

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

BATCH = 1000  # the texts that are tokenised together


def prune(
    backbone: str,
    corpus: Iterable[str],
    out: str | Path,
    *,
    on_texts: Callable[[int], Any] = lambda texts: None,
) -> dict[str, Any]:
    """Writes a copy of a backbone with a smaller vocabulary, in the same dtype.

    Args:
        backbone: folder or Hub id of an encoder with a fast tokenizer of the kind Unigram.
        corpus: the texts.
        out: the folder to write: weights as safetensors, tokenizer, and ``run.json``, the record.
        on_texts: called with the number of texts of each batch.

    Returns:
        The record. ``pieces`` and ``parameters`` have the numbers before and after.

    Raises:
        InputError: the backbone or the corpus is not usable, or ``out`` exists.
    """
    out = Path(out)
    files.check_new(out)
    tokenizer = _load_tokenizer(backbone)
    original = _plain(tokenizer)
    used, characters = _used(original, corpus, on_texts)
    if not used:
        raise InputError("the corpus holds no text")
    model, missing = _load_model(backbone)
    # Sorted, so special tokens at the start keep their ids.
    remaining = sorted(used | _always(original, characters) | _special(model, tokenizer))
    smaller = _prune_tokenizer(tokenizer, original, remaining)
    # Rows of the embedding without a piece are removed as well, so the row of a piece is its id.
    before = _size(model, missing)
    _prune_model(model, remaining)
    sizes = zip(("pieces", "parameters"), before, _size(model, missing), strict=True)
    base = record.read(backbone).get("base_model") if Path(backbone).is_dir() else model_name(backbone)
    changes = {
        "base_model": base,
        "backbone": model_name(backbone),
        "ancestors": leakage.ancestors([backbone]),
        **{name: {"before": before, "after": after} for name, before, after in sizes},
    }
    with files.new_folder(out) as folder, no_model_bars():
        # Weights that the checkpoint lacks, for instance a pooler, are random: they are not part of the backbone.
        weights = {name: value for name, value in model.state_dict().items() if name not in missing}
        model.save_pretrained(folder, state_dict=weights)
        smaller.save_pretrained(folder)
        files.write_json(folder / files.RECORD, changes)
        manifest.write(folder)
    return changes


def _load_tokenizer(backbone: str) -> "PreTrainedTokenizerBase":
    with loading(backbone, f"backbone {backbone!r}: no tokenizer that can be loaded"):
        tokenizer = load_tokenizer(backbone)
    kind = type(tokenizer.backend_tokenizer.model).__name__ if tokenizer.is_fast else "slow"
    if kind != "Unigram":
        raise InputError(
            f"backbone {backbone!r}: has a {kind} tokenizer; only fast ones of the kind Unigram can be pruned"
        )
    return tokenizer


def _load_model(backbone: str) -> tuple["PreTrainedModel", set[str]]:
    """The model, and the names of the weights that are missing in its checkpoint."""
    import transformers

    with loading(backbone, f"backbone {backbone!r}: no model that can be loaded"):
        config = load_config(backbone)
        # With its head, because the output embeddings of a masked language model are pruned as well.
        kind = getattr(transformers, (config.architectures or [""])[0], transformers.AutoModel)
        model, report = load_model(kind, backbone, dtype="auto")
        check_finite(f"backbone {backbone!r}", model)
    return model, set(report["missing_keys"])


def _plain(tokenizer: "PreTrainedTokenizerBase") -> "Tokenizer":
    """The backend of a tokenizer, without truncation and padding."""
    from tokenizers import Tokenizer

    plain = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    plain.no_truncation()
    plain.no_padding()
    return plain


def _used(tokenizer: "Tokenizer", texts: Iterable[str], on_texts: Callable[[int], Any]) -> tuple[set[int], set[str]]:
    """The ids that occur in a corpus, and all its characters after normalisation."""
    used: set[int] = set()
    characters: set[str] = set()
    source = iter(texts)
    while batch := list(islice(source, BATCH)):
        for text, encoding in zip(batch, tokenizer.encode_batch(batch, add_special_tokens=False), strict=True):
            used.update(encoding.ids)
            characters.update(*_words(tokenizer, text))
        on_texts(len(batch))
    return used, characters


def _words(tokenizer: "Tokenizer", text: str) -> list[str]:
    """The normalised words of a text, which the tokenizer splits into pieces."""
    if tokenizer.normalizer:
        text = tokenizer.normalizer.normalize_str(text)
    return [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)] if tokenizer.pre_tokenizer else [text]


def _always(tokenizer: "Tokenizer", characters: set[str]) -> set[int]:
    """The ids that always remain: the characters of the corpus, and what sets the cost of unknown characters."""
    model = json.loads(tokenizer.to_str())["model"]
    scores = [score for _, score in model["vocab"]]
    ids = {tokenizer.token_to_id(mark + character) for mark in ("", "▁") for character in characters}
    ids |= {model["unk_id"], scores.index(min(scores))}
    if model.get("byte_fallback"):
        ids |= {tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in range(256)}
    return {id for id in ids if id is not None}


def _special(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> set[int]:
    """The ids of special and added tokens, of tokens in the configuration, and those below the first position."""
    config_ids = {id for _, value in _ids_of(model) for id in (value if isinstance(value, list) else [value])}
    pieces = set(tokenizer.get_vocab().values())
    return {*tokenizer.added_tokens_decoder, *(config_ids & pieces), *(set(range(first_position(model))) & pieces)}


def _ids_of(model: "PreTrainedModel") -> list[tuple[str, Any]]:
    values = model.config.to_dict().items()
    return [(key, value) for key, value in values if key.endswith("_token_id") and value is not None]


def _prune_tokenizer(
    tokenizer: "PreTrainedTokenizerBase", original: "Tokenizer", remaining: list[int]
) -> "PreTrainedTokenizerBase":
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    new_id = {old: new for new, old in enumerate(remaining)}
    state = json.loads(original.to_str())
    vocabulary = state["model"]["vocab"]
    state["model"]["vocab"] = [vocabulary[old] for old in remaining if old < len(vocabulary)]
    state["model"]["unk_id"] = new_id.get(state["model"]["unk_id"])
    for added in state["added_tokens"]:
        added["id"] = new_id[added["id"]]
    _renumber(state["post_processor"], new_id)
    # The general class, because the class of a model would rebuild the tokenizer from its own defaults.
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)),
        **tokenizer.special_tokens_map,
        model_max_length=tokenizer.model_max_length,
        model_input_names=tokenizer.model_input_names,
        padding_side=tokenizer.padding_side,
        truncation_side=tokenizer.truncation_side,
    )


def _renumber(processor: dict[str, Any] | None, new_id: dict[int, int]) -> None:
    """Replaces the ids in a post-processor of any kind, in place."""
    if processor is None:
        return
    for part in processor.get("processors", ()):
        _renumber(part, new_id)
    for key in ("sep", "cls"):
        if key in processor:
            token, old = processor[key]
            processor[key] = [token, new_id[old]]
    for special in processor.get("special_tokens", {}).values():
        special["ids"] = [new_id[old] for old in special["ids"]]


def _prune_model(model: "PreTrainedModel", remaining: list[int]) -> None:
    """Prunes every parameter that has a row for each piece, and renumbers the ids in the configuration, in place."""
    import torch

    new_id = {old: new for new, old in enumerate(remaining)}
    for key, value in _ids_of(model):
        setattr(model.config, key, [new_id.get(old) for old in value] if isinstance(value, list) else new_id.get(value))
    model.config.vocab_size = len(remaining)
    vars(model.config).pop(KEY, None)  # the decision rule was chosen with the whole vocabulary
    with torch.device("meta"):
        shapes = {name: value.shape for name, value in type(model)(model.config).named_parameters()}
    rows = torch.tensor(remaining)
    for name, parameter in model.named_parameters():
        # A parameter depends on the vocabulary if its shape differs in a model with the smaller vocabulary.
        if parameter.shape != shapes[name]:
            parameter.data = parameter.data[rows].clone()


def _size(model: "PreTrainedModel", missing: set[str]) -> tuple[int, int]:
    """The pieces (rows of the embedding) and the parameters."""
    return model.config.vocab_size, sum(w.numel() for name, w in model.named_parameters() if name not in missing)


def read_texts(files: Iterable[str | Path]) -> Iterator[str]:
    """The texts of all files, in their order, without blank ones.

    A line is a text, or a JSON object or list whose strings are texts. A text that a detector reads in another form,
    see :func:`contradiction.inputs.views.normalize`, is followed by this form.
    """
    for file in map(Path, files):
        try:
            with file.open(encoding="utf-8-sig") as lines:
                for line in lines:
                    for text in filter(str.strip, _strings(_value(line))):
                        yield from dict.fromkeys((text, normalize(text)))
        except UnicodeDecodeError as error:
            raise InputError(f"{file}: not a text file in UTF-8 ({error.reason} at byte {error.start})") from None


def _value(line: str) -> Any:
    try:
        value = json.loads(line)
    except ValueError:
        return line.rstrip("\n")
    return value if isinstance(value, dict | list) else line.rstrip("\n")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def main(
    backbone: Annotated[str, typer.Argument(help="Folder or Hub id of an encoder.")],
    corpus: Annotated[list[Path], typer.Option(help="A text file or JSON lines; can be repeated.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
) -> None:
    """Cuts the vocabulary of a multilingual encoder to the pieces that a corpus needs."""
    with counting("reading texts") as bar:
        done = prune(backbone, read_texts(corpus), out, on_texts=bar.advance)
    rows = [(name, f"{done[name]['before']:,}", f"{done[name]['after']:,}") for name in ("pieces", "parameters")]
    show(Table(str(out), ("", "before", "after"), rows))


if __name__ == "__main__":
    cli.main(cli.script(main))
