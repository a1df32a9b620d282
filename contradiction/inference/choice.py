"""Chooses the fastest precision on this machine, and the fastest backend by a short measurement that is cached."""

import hashlib
import json
import os
import platform
import time
from collections.abc import Sequence
from importlib import metadata, util
from pathlib import Path

from contradiction.errors import InputError
from contradiction.inference.base import AUTO, BACKENDS, Backend, check_backend, check_precision, threads
from contradiction.inference.onnx_backend import OnnxBackend, OpenVinoBackend
from contradiction.inference.torch_backend import TorchBackend, best_device, has_bf16
from contradiction.io import manifest
from contradiction.io.files import read_json, write_json
from contradiction.io.hub import cached_file, fetch_file

EXACT = (OnnxBackend, OpenVinoBackend)  # the backends of an exported file that give the verdicts of PyTorch
PRECISION_VARIABLE = "CDCONV_PRECISION"  # the precision of detectors for which none is named
ROUNDS = 3
# As long as most windows of CDConv, of several lengths.
INPUTS = [
    {"text": f"{number}，养了一只橘猫" + "，每天早上都要喂" * (number % 3), "text_pair": f"我没养过猫呀{number}"}
    for number in range(16)
]


def chosen_precision(precision: str, backend: str, device: str | None) -> str:
    """A precision, where ``auto`` is the value of ``CDCONV_PRECISION``, or else the fastest that is close to fp32.

    That is ``bf16`` for PyTorch on a CPU with the instructions (avx512_bf16 or amx_bf16), where it takes about half the
    time and changes at most one label in 600, and ``fp32`` elsewhere. So it depends on the machine alone.
    """
    if precision != AUTO:
        return precision
    given = os.environ.get(PRECISION_VARIABLE, AUTO)
    if given != AUTO:
        return check_precision(given)
    if backend != TorchBackend.NAME or util.find_spec("torch") is None or (device or best_device()) != "cpu":
        return "fp32"
    import torch

    return "bf16" if torch.cpu.get_capabilities().get("architecture") == "x86_64" and has_bf16() else "fp32"


def load_backend(name: str | Path, backend: str, *, device: str | None, precision: str) -> Backend:
    """Loads a checkpoint with a backend.

    Args:
        name: a folder or Hub id.
        backend: a key of ``BACKENDS``; or ``auto``: the fastest on this machine of PyTorch and, if the model has the
            file and the package is installed, ``onnx`` and ``openvino``. It is measured once for each model, machine
            and set of versions. The verdicts are the same.
        device: see :meth:`Backend.load`.
        precision: see :meth:`Backend.load`. ``auto`` takes PyTorch for any precision other than ``fp32``, and on a GPU.

    Raises:
        InputError: see :meth:`Backend.load`.
    """
    if check_backend(backend) != AUTO:
        return BACKENDS[backend].load(name, device=device, precision=precision)
    installed = [kind.NAME for kind in EXACT if all(map(util.find_spec, kind.PACKAGES))]
    if installed and util.find_spec("torch") is None:
        return BACKENDS[installed[0]].load(name, device=device, precision=precision)
    candidates = (TorchBackend.NAME, *installed)
    file = _exported(name) if len(candidates) > 1 else None
    # Only the CPU has a choice. A choice that was measured there must not hold where a GPU is the best device.
    if precision != "fp32" or (device or best_device()) != "cpu" or file is None:
        return TorchBackend.load(name, device=device, precision=precision)
    cache, key = _cache(), _key(file, candidates)
    known = _read(cache)
    if (chosen := known.get(key)) in candidates:
        return BACKENDS[chosen].load(name, device=device)
    loaded = {candidate: BACKENDS[candidate].load(name, device=device) for candidate in candidates}
    seconds = dict.fromkeys(loaded, float("inf"))
    for _ in range(ROUNDS):  # in turn, so that a machine that slows down slows all of them
        for kind_name, candidate in loaded.items():
            started = time.perf_counter()
            candidate.score(INPUTS)
            seconds[kind_name] = min(seconds[kind_name], time.perf_counter() - started)
    chosen = min(seconds, key=seconds.__getitem__)
    try:
        write_json(cache, {**known, key: chosen})
    except OSError:  # a cache that cannot be written only costs another measurement
        pass
    return loaded[chosen]


def _exported(name: str | Path) -> Path | None:
    """The exported file of the model, if there is one."""
    try:
        return fetch_file(name, OnnxBackend.FILE)
    except InputError:
        return cached_file(name, OnnxBackend.FILE)


def _key(file: Path, candidates: Sequence[str]) -> str:
    """What the measurement depends on: the file, the machine and the versions."""
    import torch

    processor = json.dumps(dict(torch.cpu.get_capabilities()), sort_keys=True)
    machine = [platform.machine(), processor, threads()]
    versions = [metadata.version(package) for package in ("torch", "transformers")]
    versions += [kind.version() for kind in EXACT if kind.NAME in candidates]
    return hashlib.sha256(json.dumps([manifest.sha256(file), machine, versions]).encode()).hexdigest()


def _cache() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HOME) / "cdconv" / "backends.json"


def _read(cache: Path) -> dict[str, str]:
    try:
        return read_json(cache)
    except (OSError, InputError):  # not there yet, or damaged
        return {}
