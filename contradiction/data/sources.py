"""Finds the raw file: a local file, the pinned release, or the embedded sample."""

import os
from dataclasses import dataclass
from pathlib import Path

import cdconv
from contradiction.errors import InputError
from contradiction.io.quiet import no_data_bars
from contradiction.paths import SAMPLE


@dataclass(frozen=True)
class Source:
    """A verified raw file.

    Attributes:
        path: the file.
        kind: ``release`` (byte for byte the published file), ``sample`` (the embedded one) or ``custom``.
    """

    path: Path
    kind: str


def find(source: str | None = None) -> Source:
    """Finds and verifies the raw file.

    Args:
        source: a file, or ``sample``. By default it is ``$CDCONV_FILE`` or else the pinned URL, and the file must then
            be the release, byte for byte.

    Raises:
        InputError: there is no such file, or the release cannot be fetched.
        cdconv.InvalidSourceError: a row is not valid.
        cdconv.NonMatchingChecksumError: the file must be the release and is not.
    """
    if source == "sample":
        return Source(SAMPLE, "sample")
    named = source or os.environ.get("CDCONV_FILE")
    if named and not Path(named).is_file():
        origin = "" if source else " (from $CDCONV_FILE)"
        raise InputError(f"{named}{origin}: no such file; a source is a raw file of CDConv, or the word sample")
    path = Path(named) if named else _download()
    try:
        # Rows first, because their errors are more precise than a wrong checksum.
        cdconv.read_rows(path)
        if source is None:
            cdconv.verify_checksum(path)
    except (cdconv.InvalidSourceError, cdconv.NonMatchingChecksumError):
        if not named:
            path.unlink()  # otherwise the bad download would stay in the cache
        raise
    return Source(path, "release" if cdconv.sha256(path) == cdconv.SHA256 else "custom")


def _download() -> Path:
    from aiohttp import ClientError
    from datasets import DownloadManager

    try:
        with no_data_bars():
            return Path(DownloadManager(dataset_name="cdconv").download(cdconv.URL))
    except (OSError, ValueError, RuntimeError, ClientError) as error:
        raise InputError(
            f"the raw file can neither be found ($CDCONV_FILE is not set) nor fetched from {cdconv.URL} "
            f"({type(error).__name__}); --source names a file, --source sample takes the embedded sample"
        ) from error
