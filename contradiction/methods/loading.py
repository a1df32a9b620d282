"""Loads and calibrates a model of any method; the file that marks a folder says which method it is."""

import os
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from contradiction.decision import Rule
from contradiction.errors import InputError, check_known, first_line
from contradiction.inference.base import AUTO, BACKENDS, INT8, PRECISIONS, OnBatch
from contradiction.inference.torch_backend import TorchBackend, best_device, check_device, has_bf16
from contradiction.inputs.views import Row, row_of
from contradiction.io import manifest
from contradiction.io.hub import CONFIG, fetch_file, models_here, quick_hub, split_revision
from contradiction.methods.base import Classifier
from contradiction.paths import SHIPPED

if TYPE_CHECKING:
    from datasets import Dataset

METHODS: list[type[Classifier]] = []
PRECISION_VARIABLE = "CDCONV_PRECISION"  # the precision of detectors for which none is named
OPENINGS_CALLED = 0.01  # the share of first replies that a rule calls, at most
_Method = TypeVar("_Method", bound=Classifier)


def register(method: type[_Method]) -> type[_Method]:
    """Makes a method known; a decorator."""
    METHODS.append(method)
    return method


def load_classifier(
    name: str | Path,
    *,
    view: str | None = None,
    device: str | None = None,
    precision: str = "fp32",
    backend: str = "torch",
) -> Classifier:
    """Loads a model with its decision rule.

    No code of the model is run. Weights are read from safetensors, or from ONNX if the backend needs it. A folder
    with a manifest (:mod:`contradiction.io.manifest`) must match it.

    Args:
        name: a folder or Hub id; ``user/name@v1`` names a revision as well.
        view: the utterances that the model reads, for a checkpoint whose configuration does not say.
        device: for instance ``cpu`` or ``cuda:1``; by default a GPU where there is one.
        precision: one of ``contradiction.inference.base.PRECISIONS``; ``docs/operators.md`` has figures.
        backend: what runs the encoders, a key of ``contradiction.inference.base.BACKENDS`` or ``auto``, see
            :func:`contradiction.inference.fastest_backend`.

    Raises:
        InputError: there is no such model or device, the model is not one of this project, it is damaged, or it states
            its views itself.
    """
    check_known(precision, PRECISIONS, "precision")  # before a large model is loaded
    check_known(backend, (*BACKENDS, AUTO), "backend")
    if backend in (TorchBackend.NAME, AUTO):  # the others run without PyTorch, and check the device themselves
        check_device(device)
    name = find_model(name)
    method = method_of(name)
    if precision == INT8 and not has_causal_part(name):
        raise InputError(f"{name}: int8 is for causal detectors, and an encoder has none; leave the precision out")
    if method.MARKER == CONFIG:  # transformers fetches such a model itself
        return method.load(name, view=view, device=device, precision=precision, backend=backend)
    if view is not None:
        raise InputError(f"{name}: states what each of its checkpoints reads; leave the view out")
    folder = fetch(name)
    manifest.check(folder)  # the manifests of its parts are checked when they are loaded
    return method.load(folder, device=device, precision=precision, backend=backend)


def load_part(folder: Path, precision: str = "fp32", **options: Any) -> Classifier:
    """Loads a part of a model, see :func:`load_classifier`. An encoder has no int8, and takes the fastest precision."""
    if precision == INT8 and not has_causal_part(folder):
        precision = "bf16" if has_bf16() else "fp32"
    return load_classifier(folder, precision=precision, **options)


def chosen_precision(name: str | Path, precision: str, backend: str, device: str | None) -> str:
    """The precision for a model, where ``auto`` is the value of ``CDCONV_PRECISION``, or else the fastest near fp32.

    With PyTorch, that is ``bf16`` on a CPU with the instructions (avx512_bf16 or amx_bf16), where it takes about half
    the time and changes at most one label of an encoder in 600. On a GPU that computes in bf16, it is ``bf16`` for a
    causal detector and for a model that has one as a part; an encoder is fast enough. Elsewhere it is ``fp32``. The
    backend ``auto`` means PyTorch for such a model, and ``fp32`` for others.
    """
    if precision != AUTO:
        return precision
    given = os.environ.get(PRECISION_VARIABLE, AUTO)
    if given != AUTO:
        return check_known(given, PRECISIONS, "precision")
    if backend == AUTO and has_causal_part(name):
        backend = TorchBackend.NAME  # which alone runs it
    if backend != TorchBackend.NAME or find_spec("torch") is None:
        return "fp32"
    import torch

    device = device or best_device()
    if device == "cpu":
        fast = torch.cpu.get_capabilities().get("architecture") == "x86_64" and has_bf16()
    else:
        check_device(device)
        # Older GPUs only emulate bf16.
        fast = torch.device(device).type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
        fast = fast and has_causal_part(name)
    return "bf16" if fast else "fp32"


def has_causal_part(name: str | Path) -> bool:
    """Whether a model is a causal detector, or has one as a part."""
    model = find_model(name)
    parts = parts_of(fetch(model)) if method_of(model).PARTS else [model]
    return any(method_of(part).reads_chats for part in parts)


def find_model(name: str | Path) -> str | Path:
    """The folder of a model of this repository that is named as in its documentation, from any directory.

    ``e5-small-long-replies`` and ``models/e5-small-long-replies`` name such a model. Any other name stays as it is, or
    raises InputError if it is the path of no folder.
    """
    if Path(name).exists():
        return name
    folder = SHIPPED.parent / str(name).removeprefix("models/")
    if folder.parent == SHIPPED.parent and any((folder / method.MARKER).is_file() for method in METHODS):
        return folder
    if Path(name) == SHIPPED:
        raise InputError(
            f"{name}: the shipped detector is missing; only the repository has it, not the installed package. Name "
            f"a model folder or a Hub id (--model, or $CDCONV_MODEL){models_here(name)}"
        )
    # A Hub id has one slash, and its owner is no dot.
    if Path(name).is_absolute() or str(name).startswith((".", "~", "models/")) or str(name).count("/") > 1:
        raise InputError(
            f"{name}: no such folder in {Path.cwd()}, and not the Hub id of a model, which is OWNER/NAME"
            f"{models_here(name)}"
        )
    return name


def method_of(name: str | Path) -> type[Classifier]:
    """The method of a model, a folder or Hub id; a plain checkpoint if no other method matches."""
    checkpoint = next(method for method in METHODS if method.MARKER == CONFIG)
    others = [method for method in METHODS if method is not checkpoint]
    if not Path(name).is_dir() and fetch_file(name, CONFIG):  # only a repo of a plain checkpoint has one at its root
        return checkpoint
    return next((method for method in others if fetch_file(name, method.MARKER)), checkpoint)


def parts_of(folder: str | Path) -> list[Path]:
    """A model folder with its parts, and the parts of each part; raises InputError for one that names none."""
    folder = Path(folder)
    return [folder, *(part for child in method_of(folder).parts(folder) for part in parts_of(child))]


def load_rule(folder: str | Path) -> Rule:
    """The decision rule of a model folder, or the default rule; raises InputError for a damaged one."""
    return Rule.load(Path(folder) / method_of(folder).MARKER)


def save_rule(folder: str | Path, rule: Rule) -> None:
    """Writes the decision rule of a model folder, also into its manifest."""
    marker = method_of(folder).MARKER
    rule.save(Path(folder) / marker)
    manifest.update(Path(folder), marker)


def write_manifests(folder: str | Path) -> None:
    """Writes the manifest of a model folder that is finished, and of its parts without one."""
    for part in parts_of(folder):
        if part == Path(folder) or not (part / manifest.NAME).is_file():
            method = method_of(part)
            manifest.write(part, (method.MARKER, *method.FILES))


def name_with_digest(name: str | None) -> str | None:
    """How a record names a model: a folder by its name and a digest; a Hub id, or None, as it is.

    The digest is that of the weights, which may lie in sub-folders, and of the identity of the model.

    Raises:
        InputError: the folder has neither.
    """
    if not name or not Path(name).is_dir():
        return name
    folder = Path(name)
    files = list(folder.glob("*.safetensors")) or list(folder.rglob("*.safetensors"))
    identity = method_of(folder).identity(folder)
    if not files and not identity:
        raise InputError(f"{folder}: no weights in this folder (*.safetensors)")
    digests = [bytes.fromhex(manifest.sha256(file)) for file in files] + [sha256(part).digest() for part in identity]
    return f"{folder.resolve().name}@{sha256(b''.join(sorted(digests))).hexdigest()[:12]}"


def fetch(name: str | Path) -> Path:
    """The folder of a model; a model of the Hub is downloaded completely, or InputError says why it is not."""
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download

    repo, revision = split_revision(name)
    try:
        with quick_hub():
            return Path(snapshot_download(repo, revision=revision))
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: it could not be downloaded completely from the Hub ({first_line(error)})") from error


def fit_rule(
    folder: str | Path, rows: "Dataset", *, view: str | None = None, precision: str = "fp32",
    on_batch: OnBatch | None = None,
) -> Rule:  # fmt: skip
    """Fits the decision rule of a model folder; :func:`save_rule` writes it there.

    Args:
        folder: a model folder of any method, or a stage of a hierarchical one.
        rows: the validation split of a config with the labels of the model, and the columns that it reads.
        view: the utterances that the model reads, where its configuration does not say.
        precision: see :func:`load_classifier`.
        on_batch: called with the number of conversations done, after each forward pass.
    """
    classifier = load_classifier(folder, view=view, precision=precision)
    if missing := [column for column in classifier.columns if column not in rows.column_names]:
        raise InputError(f"{folder} reads {', '.join(classifier.columns)}; the data has no {', '.join(missing)}")
    names = rows.features["label"].names
    table = rows.to_list()  # twenty times as fast as row by row
    rule = classifier.fit_rule(table, [names[row["label"]] for row in table], on_batch=on_batch)
    if "u1" in rows.column_names and classifier.judges_openings and classifier.usage() is None:
        classifier.rule = rule
        rule = replace(rule, opening=_opening_threshold(classifier, table))
    return rule


def _opening_threshold(classifier: Classifier, rows: Sequence[Row]) -> float:
    """The probability of a contradiction that at most ``OPENINGS_CALLED`` of the first replies of some rows reach.

    These are taken for consistent. It is 0 for a model that does not tell self-contradictions from others.
    """
    openings = [row_of("", "", *pair) for pair in dict.fromkeys((row["u1"], row["b1"]) for row in rows)]
    found = []
    for prediction in classifier.predict(openings):
        if (probabilities := classifier.opening_probabilities(prediction.scores)) is None:
            return 0.0
        found.append(sum(probabilities[name] for name in classifier.contradictions))
    return min(round(float(np.quantile(found, 1 - OPENINGS_CALLED, method="higher")) + 1e-4, 4), 1.0)
