"""What judges, from a folder or the Hub: one checkpoint, or what is made of some, as a file beside them says."""

from pathlib import Path

from contradiction.errors import InputError, first_line
from contradiction.io.hub import CONFIG, NotKnownError, cached, fetched
from contradiction.methods import ensemble, hierarchical, kernel
from contradiction.methods.checkpoint import CheckpointClassifier, named_in
from contradiction.methods.ensemble import EnsembleClassifier
from contradiction.methods.hierarchical import HierarchicalClassifier
from contradiction.methods.kernel import FrozenClassifier
from contradiction.methods.probabilistic import LabelClassifier

# The file that a folder has whose checkpoints are in sub-folders, and what loads it.
COMPOSITE: dict[str, type[HierarchicalClassifier] | type[EnsembleClassifier] | type[FrozenClassifier]] = {
    hierarchical.FILE: HierarchicalClassifier,
    ensemble.FILE: EnsembleClassifier,
    kernel.FILE: FrozenClassifier,
}


def load_classifier(
    name: str | Path, *, view: str | None = None, device: str | None = None, precision: str = "fp32"
) -> LabelClassifier | HierarchicalClassifier:
    """Loads a classifier with its decision rule.

    Args:
        name: folder or Hub id.
        view: the utterances it reads, for one checkpoint whose configuration does not say.
        device: for instance ``cpu`` or ``cuda:1``; by default a GPU where there is one.
        precision: of the arithmetic, see :class:`contradiction.methods.checkpoint.CheckpointClassifier`.

    Raises:
        InputError: there is none of that name, it is no classifier of this project, or it has views of its own.
    """
    if kind := composite(name):
        if view is not None:
            raise InputError(f"{name}: says itself what each of its checkpoints reads; leave the view out")
        return COMPOSITE[kind].load(_folder(name), device=device, precision=precision)
    return CheckpointClassifier.load(name, view=view, device=device, precision=precision)


def composite(name: str | Path) -> str | None:
    """The key of ``COMPOSITE`` that a model has; None for one plain checkpoint.

    Raises:
        InputError: the Hub cannot be asked for the moment.
    """
    folder = Path(name)
    if folder.is_dir():
        return next((file for file in COMPOSITE if (folder / file).is_file()), None)
    try:
        return next((file for file in COMPOSITE if fetched(str(name), file)), None)
    except NotKnownError:
        if cached(str(name), CONFIG):  # a repo whose checkpoints are in sub-folders has none of its own
            return None
        raise


def checkpoints(folder: str | Path) -> list[Path]:
    """The folders of the checkpoints that a model folder holds: those that its file names, or the folder itself.

    Raises:
        InputError: the file names none.
    """
    return [each for each in parts(folder) if not composite(each)]


def parts(folder: str | Path) -> list[Path]:
    """A model folder, the folders that its file names, and those that theirs name.

    Raises:
        InputError: a file names none.
    """
    folder = Path(folder)
    kind = composite(folder)
    named = named_in(folder / kind, COMPOSITE[kind].PARTS) if kind else []
    return [folder, *(part for each in named for part in parts(each))]


def _folder(name: str | Path) -> Path:
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(str(name)))
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: not all of it could be fetched from the Hub ({first_line(error)})") from error
