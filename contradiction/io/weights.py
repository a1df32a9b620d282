"""Weights in files: what they are, what tells them from others, and which file is damaged."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from contradiction.errors import InputError, first_line

if TYPE_CHECKING:
    import torch

POINTER = b"version https://git-lfs"  # how a file begins that Git LFS has not fetched yet


def weights_of(file: Path) -> dict[str, "torch.Tensor"]:
    """The weights in a file of safetensors, by name.

    Raises:
        InputError: it is none, or damaged.
    """
    from safetensors.torch import load_file

    with sound(file.parent):
        return load_file(file)


def digest(folder: Path, more: Sequence[bytes] = ()) -> str:
    """A digest of the weights in a folder, or in its sub-folders where it has none itself.

    Args:
        folder: the folder; of several formats the one that transformers prefers counts.
        more: what else the digest depends on.

    Raises:
        InputError: there is nothing that it could depend on.
    """
    forms = ("*.safetensors", "pytorch_model*.bin", "*/*.safetensors")
    found = next(filter(None, (list(folder.glob(form)) for form in forms)), [])
    if not found and not more:
        raise InputError(f"{folder}: no weights in this folder (*.safetensors or pytorch_model*.bin)")
    digests = sorted(hashlib.sha256(content).digest() for content in (*(file.read_bytes() for file in found), *more))
    return hashlib.sha256(b"".join(digests)).hexdigest()[:12]


@contextmanager
def sound(name: str | Path) -> Iterator[None]:
    """Turns what loading raises over bad weights into one line.

    Args:
        name: folder or Hub id of the checkpoint that is loaded inside the block.

    Raises:
        InputError: a file of weights is damaged, or the weights have other shapes than the configuration says.
    """
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:  # derived from Exception alone
        raise InputError(_damaged(Path(name)) or f"{name}: its weights are damaged ({error})") from error
    except RuntimeError as error:
        # A table by transformers, of which this line says how to read it.
        raise InputError(
            f"{name}: its weights cannot be loaded, or have other shapes than its config.json says; take the "
            f"weights and the configuration of one model ({first_line(error)})"
        ) from error


def _damaged(folder: Path) -> str | None:
    from safetensors import SafetensorError, safe_open

    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as stream:
            if stream.read(len(POINTER)) == POINTER:
                return f"{file}: a pointer of Git LFS and not the weights; `git lfs pull` fetches them"
        try:
            with safe_open(file, "pt"):
                pass
        except SafetensorError as error:
            return f"{file}: damaged, or copied in part ({error}); copy or download it again"
    return None
