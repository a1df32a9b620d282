"""The manifest of a model folder: the SHA-256 of each file that verdicts depend on, as ``sha256sum -c`` reads it."""

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from contradiction.errors import InputError
from contradiction.io.files import sha256_of, write_text

NAME = "SHA256SUMS"
AGAIN = "copy or download the model again"  # the remedy for a damaged model
# What loaders read: weights, configuration, tokenizer. The card and the record of the training may change.
READ = (
    "*.safetensors", "*.safetensors.index.json", "*.model", "config.json", "decision.json", "tokenizer*.json",
    "*_tokens.json", "*tokens_map.json", "vocab.*", "merges.txt", "adapter*",
    "onnx/*.onnx",
)  # fmt: skip
POINTER = b"version https://git-lfs"  # the beginning of a file that Git LFS has not fetched yet
_LINE = re.compile(r"(?P<digest>[0-9a-f]{64})  (?P<name>(onnx/)?[^/\\]+)")


def write(folder: Path, more: Iterable[str] = ()) -> None:
    """Writes the manifest of a folder; ``more`` are the names of files that its method reads besides ``READ``."""
    _save(folder, {name: sha256(folder / name) for name in sorted(_read_files(folder, more))})


def update(folder: Path, name: str) -> None:
    """Updates the digest of one file in the manifest of a folder, if it has one; damage to others is still found."""
    if (folder / NAME).is_file():
        _save(folder, dict(sorted({**_load(folder), name: sha256(folder / name)}.items())))


def check(folder: Path, partial: bool = False) -> None:
    """Raises InputError for a file that does not match the manifest; a folder without a manifest passes.

    With ``partial``, missing files pass too, as in a cache that holds only the requested files.
    """
    if not (folder / NAME).is_file():
        return
    listed = _load(folder)
    for name, expected in listed.items():
        file = folder / name
        if not file.is_file():
            if partial:
                continue
            raise InputError(f"{file}: is missing, and {NAME} lists it; {AGAIN}")
        if sha256(file) != expected:
            changed = (
                f"{file}: has changed since {NAME} was written; copy the model again, or remove {NAME} if it was you"
            )
            raise InputError(damage_of(file) or changed)
    if added := sorted(_read_files(folder) - listed.keys()):
        raise InputError(f"{folder / added[0]}: is not in {NAME}, so it does not belong to the model; remove it")


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


def sha256(file: Path) -> str:
    """The SHA-256 of a file, computed again only after a change."""
    status = file.stat()
    return _sha256(file, status.st_size, status.st_mtime_ns, status.st_ino)


@lru_cache(maxsize=256)
def _sha256(file: Path, *_: int) -> str:
    return sha256_of(file)


def _read_files(folder: Path, more: Iterable[str] = ()) -> set[str]:
    paths = (file for pattern in (*READ, *more) for file in folder.glob(pattern))
    return {file.relative_to(folder).as_posix() for file in paths if file.is_file()}


def _save(folder: Path, digests: dict[str, str]) -> None:
    write_text(folder / NAME, "".join(f"{digest}  {name}\n" for name, digest in digests.items()))


def _load(folder: Path) -> dict[str, str]:
    lines = (folder / NAME).read_text(encoding="utf-8", errors="replace").splitlines()
    matches = [_LINE.fullmatch(line) for line in lines]
    if not all(matches):
        raise InputError(f"{folder / NAME}: holds no digests; {AGAIN}")
    return {match["name"]: match["digest"] for match in matches if match}
