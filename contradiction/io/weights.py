"""Files of weights: loading them, their digest, and which of them is damaged."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from contradiction.errors import InputError, first_line

if TYPE_CHECKING:
    import torch

WEIGHTS = "model.safetensors"  # of a checkpoint
POINTER = b"version https://git-lfs"  # the beginning of a file that Git LFS has not fetched yet


def load_weights(file: Path) -> dict[str, "torch.Tensor"]:
    """The weights in a safetensors file, by name.

    Raises:
        InputError: the file is damaged.
    """
    from safetensors.torch import load_file

    with weight_errors(file.parent):
        return load_file(file)


def digest(folder: Path, more: Sequence[bytes] = ()) -> str:
    """A digest of the weights in a folder, or in its sub-folders if it holds none itself.

    Args:
        folder: the folder.
        more: other bytes that the digest depends on.

    Raises:
        InputError: there are no weights and no other bytes.
    """
    patterns = ("*.safetensors", "*/*.safetensors")
    files = next(filter(None, (list(folder.glob(pattern)) for pattern in patterns)), [])
    if not files and not more:
        raise InputError(f"{folder}: no weights in this folder (*.safetensors)")
    digests = sorted(hashlib.sha256(content).digest() for content in (*(file.read_bytes() for file in files), *more))
    return hashlib.sha256(b"".join(digests)).hexdigest()[:12]


@contextmanager
def weight_errors(name: str | Path) -> Iterator[None]:
    """Turns the errors of loading bad weights inside the block into one line.

    Args:
        name: folder or Hub id of the checkpoint.

    Raises:
        InputError: a file of weights is damaged, or the weights have other shapes than the configuration says.
    """
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:  # it derives from Exception directly
        damages = filter(None, map(damage_of, sorted(Path(name).glob("*.safetensors"))))
        raise InputError(next(damages, f"{name}: its weights are damaged ({error})")) from error
    except RuntimeError as error:
        # transformers prints a table of the mismatches before it raises this.
        raise InputError(
            f"{name}: its weights cannot be loaded, or have other shapes than its config.json says; take the "
            f"weights and the configuration of one model ({first_line(error)})"
        ) from error


def damage_of(file: Path) -> str | None:
    """What is wrong with a file of weights, in one line; None for one that can be opened, and for other files."""
    from safetensors import SafetensorError, safe_open

    if file.suffix != ".safetensors":
        return None
    with file.open("rb") as stream:
        if stream.read(len(POINTER)) == POINTER:
            return f"{file}: a pointer of Git LFS instead of the weights; `git lfs pull` fetches them"
    try:
        with safe_open(file, "pt"):
            pass
    except SafetensorError as error:
        return f"{file}: damaged or copied only in part ({error}); copy or download it again"
    return None
