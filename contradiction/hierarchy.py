"""The hierarchical method (paper, section 5.1): a detector for each category; the first that fires decides."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from contradiction.detector import ContradictionDetector, Detector, Judgement
from contradiction.errors import InputError
from contradiction.files import read_json
from contradiction.labels import CONTRADICTION, LABELS, NON_CONTRADICTION, OTHER, STAGES
from contradiction.scoring import load_checkpoint
from contradiction.views import CONVERSATION

FILE = "stages.json"


def folder_of(name: str | Path) -> Path | None:
    """The folder of a hierarchical detector, fetched where ``name`` is a Hub id; None where it is none."""
    folder = Path(name)
    if folder.is_dir():
        return folder if (folder / FILE).is_file() else None
    from huggingface_hub import hf_hub_download, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        hf_hub_download(str(name), FILE)
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError):
        return None  # no such file or no such repo: what it then is, loading it as a checkpoint says
    return Path(snapshot_download(str(name)))


class HierarchicalDetector(Detector):
    """Detectors of one category each, in the order in which they decide.

    The first stage that gives its category more than one half names it; a later one is then not heard. The probability
    of a contradiction is that of the surest stage, so that it exceeds one half exactly where a stage fires, and is
    shared among the categories in proportion to their stages. The category decided on may so not be the most probable.

    Args:
        stages: detectors, each of which tells one category from all other rows.
        name: how messages name it.
    """

    def __init__(self, stages: Sequence[ContradictionDetector], name: str = "model") -> None:
        self.stages = tuple(stages)
        self.name, self.task, self.labels = name, "4-class", LABELS["4-class"]
        read = {column for stage in self.stages for column in stage.columns}
        self.columns = tuple(column for column in CONVERSATION if column in read)
        tasks = [stage.task for stage in self.stages]
        if sorted(tasks) != sorted(STAGES):
            raise InputError(f"{name}: its stages are {', '.join(tasks)}; there must be one for each category")

    @classmethod
    def load(cls, folder: str | Path, device: str | None = None) -> Self:
        """Loads the stages that a folder's ``stages.json`` names.

        Raises:
            InputError: the file names no usable stages.
        """
        folder = Path(folder)
        names = read_json(folder / FILE).get("stages")
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise InputError(f'{folder / FILE}: must be {{"stages": [folder, ...]}}')
        return cls(
            [ContradictionDetector(*load_checkpoint(folder / name, device), name=name) for name in names], str(folder)
        )

    def judge(
        self,
        rows: Sequence[Mapping[str, str]],
        *,
        batch_size: int = 32,
        on_batch: Callable[[int], Any] | None = None,
    ) -> list[Judgement]:
        """Judges rows by all stages; see :meth:`Detector.judge`. Progress is that of the last stage."""
        heard = [
            stage.judge(rows, batch_size=batch_size, on_batch=on_batch if stage is self.stages[-1] else None)
            for stage in self.stages
        ]
        return [self._decide(each) for each in zip(*heard, strict=True)]

    def knows(self, text: str) -> bool:
        """Whether the stages' tokenizer, which is the same for all, has a token for any part of a text."""
        return self.stages[0].knows(text)

    def _decide(self, heard: Sequence[Judgement]) -> Judgement:
        fires = {stage.task: each.scores[stage.task] for stage, each in zip(self.stages, heard, strict=True)}
        label = next((each.label for each in heard if each.label != OTHER), None)
        surest, total = max(fires.values()), sum(fires.values())
        scores = {
            name: 1 - surest if name == NON_CONTRADICTION else surest * fires[name] / total for name in self.labels
        }
        return Judgement(
            label=label or NON_CONTRADICTION,
            merged=CONTRADICTION if label else NON_CONTRADICTION,
            scores=scores,
            unread=next((each.unread for each in heard if each.unread), None),
        )
