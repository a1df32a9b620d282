"""Loads models and tokenizers with transformers, without their code, without pickles and without random weights."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from contradiction.errors import InputError, first_line
from contradiction.io import manifest
from contradiction.io.environment import no_model_bars, no_model_warnings
from contradiction.io.files import read_json, write_json
from contradiction.io.hub import CONFIG, HubUnavailableError, fetch_file, models_here, quick_hub, split_revision
from contradiction.io.manifest import AGAIN

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

WEIGHTS = "model.safetensors"  # of a checkpoint
TOKENIZER_CONFIG = "tokenizer_config.json"
CONFIGS = (CONFIG, TOKENIZER_CONFIG)
PICKLE = "not in safetensors, and a pickle may run code; convert it where you trust it"
# The names of the class that reads only tokenizer.json. transformers 4 knows the first one alone.
GENERIC_TOKENIZERS = ("PreTrainedTokenizerFast", "TokenizersBackend")
_LOADING = RLock()  # torch.load is replaced while weights are loaded


@contextmanager
def loading(name: str | Path, otherwise: str | None = None) -> Iterator[None]:
    """Turns any error of loading a model, a folder or Hub id, into an InputError of one line, and checks the manifest.

    If the error has no known cause, the line begins with ``otherwise``, by default that there is no such model.
    """
    folder = Path(name) if Path(name).is_dir() else None
    if folder:
        manifest.check(folder)
        for key, value in (read_json(folder / CONFIG) if (folder / CONFIG).is_file() else {}).items():
            if "attn_implementation" in key and "/" in str(value):
                raise InputError(f"{folder / CONFIG}: {key} asks for code from elsewhere ({value}), which is never run")
    try:
        # A download shows its progress. What transformers warns of, for instance missing weights, is checked here.
        place = no_model_bars() if folder else quick_hub()
        with place, no_model_warnings(), weight_errors(name):
            yield
    except (InputError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    # A damaged file makes transformers and tokenizers raise anything, even a BaseException.
    except BaseException as error:
        here = "" if folder else models_here(name)
        otherwise = otherwise or f"{name}: neither a model folder nor a model on the Hub that can be reached{here}"
        raise InputError(_why(name, folder, error) or f"{otherwise} ({first_line(error)})") from error
    if not folder:
        with suppress(HubUnavailableError):  # the manifest of a cached model, if its repo has one
            if file := fetch_file(name, manifest.NAME):
                manifest.check(file.parent, partial=True)


def _from_pretrained(kind: Any, name: str | Path, **options: Any) -> Any:
    repo, revision = split_revision(name)
    return kind.from_pretrained(repo, revision=revision or "main", trust_remote_code=False, **options)


def load_tokenizer(name: str | Path, **options: Any) -> "PreTrainedTokenizerBase":
    """Loads a tokenizer; inside :func:`loading`."""
    from transformers import AutoTokenizer

    return _from_pretrained(AutoTokenizer, name, **options)


def make_tokenizer_portable(folder: Path) -> None:
    """Changes the configuration of a saved tokenizer, so that transformers 4 loads it too; one without it stays."""
    file = folder / TOKENIZER_CONFIG
    if not file.is_file():
        return
    of_version_5 = ("backend", "is_local", "local_files_only")
    config = {key: value for key, value in read_json(file).items() if key not in of_version_5}
    if config.get("tokenizer_class") in GENERIC_TOKENIZERS:
        config["tokenizer_class"] = GENERIC_TOKENIZERS[0]
    write_json(file, config)


def load_config(name: str | Path) -> Any:
    """Loads a configuration; inside :func:`loading`."""
    from transformers import AutoConfig

    return _from_pretrained(AutoConfig, name)


def load_without_torch(name: str | Path) -> tuple[dict[str, Any], "PreTrainedTokenizerBase"]:
    """Loads a configuration and a tokenizer, and does not import PyTorch for most models; inside :func:`loading`.

    ``AutoTokenizer`` always imports PyTorch, which takes a second and is not needed to run an exported file. Only
    tokenizers with a class of their own are loaded with it.
    """
    config, tokenizer = (read_json(file) if file else {} for file in (fetch_file(name, own) for own in CONFIGS))
    if tokenizer.get("tokenizer_class") not in GENERIC_TOKENIZERS or "auto_map" in tokenizer:
        return config, load_tokenizer(name)
    from transformers import PreTrainedTokenizerFast

    return config, _from_pretrained(PreTrainedTokenizerFast, name)


def load_model(kind: Any, name: str | Path, **options: Any) -> tuple["PreTrainedModel", dict[str, Any]]:
    """Loads a model from safetensors, and says which weights it lacks or has in addition; inside :func:`loading`."""
    with _no_pickles():
        return _from_pretrained(kind, name, use_safetensors=True, output_loading_info=True, **options)


@contextmanager
def _no_pickles() -> Iterator[None]:
    """Refuses pickles inside the block: ``use_safetensors`` does not keep an index or an adapter from naming one."""
    import torch

    def refuse(*args: Any, **options: Any) -> Any:
        raise InputError(f"{args[0]}: {PICKLE}")

    with _LOADING:
        load, torch.load = torch.load, refuse
        try:
            yield
        finally:
            torch.load = load


def load_weights(file: Path) -> dict[str, "torch.Tensor"]:
    """The weights in a safetensors file, by name; raises InputError for a damaged file."""
    from safetensors.torch import load_file

    with weight_errors(file.parent):
        return load_file(file)


@contextmanager
def weight_errors(name: str | Path) -> Iterator[None]:
    """Turns the errors of damaged weights, and of weights with wrong shapes, inside the block into an InputError."""
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:  # it derives from Exception directly
        damages = filter(None, map(manifest.damage_of, sorted(Path(name).glob("*.safetensors"))))
        raise InputError(next(damages, f"{name}: its weights are damaged ({error})")) from error
    except RuntimeError as error:
        # transformers prints a table of the mismatches before it raises this.
        raise InputError(
            f"{name}: its weights cannot be loaded, or have other shapes than its config.json says; take the "
            f"weights and the configuration of one model ({first_line(error)})"
        ) from error


def check_weights(name: str, model: "PreTrainedModel", report: dict[str, Any], optional: Iterable[str] = ()) -> None:
    """Raises InputError if a weight of a model is missing, unknown or not finite, by the report of :func:`load_model`.

    A checkpoint may lack the ``optional`` parts of a model, and may then have other weights in addition.
    """
    left_out = set(optional)
    absent = [*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])]
    if missing := sorted(key for key in absent if not left_out & set(key.split("."))):
        raise InputError(f"{name}: its checkpoint lacks {len(missing)} weights, for instance {missing[0]}; {AGAIN}")
    if not left_out and (unknown := sorted(report["unexpected_keys"])):
        raise InputError(
            f"{name}: its checkpoint has {len(unknown)} weights that its {CONFIG} knows nothing of, for instance "
            f"{unknown[0]}; take the weights and the configuration of one model"
        )
    check_finite(name, model)


def check_finite(name: str, model: "PreTrainedModel") -> None:
    """Raises InputError for a model with a weight that is not finite."""
    for weight, values in (*model.named_parameters(), *model.named_buffers()):
        # By NumPy, which does not wait for the threads of torch.
        if values.is_floating_point() and not np.isfinite(values.detach().float().cpu().numpy()).all():
            raise InputError(f"{name}: {weight} holds numbers that are not finite; its weights are damaged, {AGAIN}")


def check_vocabulary(name: str, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> None:
    """Raises InputError if there is no tokenizer, or if its ids go beyond the embeddings of the model."""
    try:
        embeddings: Any = model.get_input_embeddings()
        rows = len(embeddings.weight)
    except (AttributeError, NotImplementedError):  # a model without a table of embeddings
        rows = None
    check_tokenizer(name, tokenizer, rows)


def check_tokenizer(name: str, tokenizer: "PreTrainedTokenizerBase", rows: int | None) -> None:
    """Like :func:`check_vocabulary`, for a number of embeddings; None if the model has no table of them."""
    vocabulary = tokenizer.get_vocab()
    # Without the files of a tokenizer, transformers makes one of special tokens alone.
    if len(vocabulary) <= len(tokenizer.all_special_tokens):
        raise InputError(f"{name}: has no tokenizer, or one without a vocabulary")
    if rows is not None and (highest := max(vocabulary.values())) >= rows:
        raise InputError(
            f"{name}: its tokenizer has ids up to {highest}, and the model has embeddings for {rows}; take the "
            "tokenizer and the weights of one model"
        )


def _why(name: str | Path, folder: Path | None, error: BaseException) -> str | None:
    message = str(error)
    if "trust_remote_code" in message:
        return f"{name}: asks for code of its own (auto_map), which is never run; take a model that transformers knows"
    pickled = sorted(folder.glob("*.bin")) if folder else []
    if ("safetensors" in message and "file named" in message) and (pickled or not folder):
        weights = pickled[0] if pickled else f"{name}: its weights"
        return f"{weights}: {PICKLE}"
    return None
