"""The hierarchical method (paper, section 5.1): a detector for each category; the first that fires decides."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from contradiction.detector import ContradictionDetector, Judgement
from contradiction.errors import InputError
from contradiction.files import read_json
from contradiction.labels import CONTRADICTION, LABELS, NON_CONTRADICTION
from contradiction.views import HIERARCHICAL

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


class HierarchicalDetector(ContradictionDetector):
    """Detectors of one category each, in the order in which they decide.

    The first stage whose category is more likely than not names it; a later one is then not heard. The probability of a
    category is that of its stage times that of all stages before it staying silent, so the most probable label may be
    another than the one decided.

    Args:
        stages: detectors, each of which tells one category from all other rows.
        name: how messages name it.
    """

    def __init__(self, stages: Sequence[ContradictionDetector], name: str = "model") -> None:
        self.stages = tuple(stages)
        self.name, self.task, self.view, self.labels = name, "4-class", HIERARCHICAL, LABELS["4-class"]
        self.categories = tuple(stage.labels[-1] for stage in self.stages)
        if sorted((NON_CONTRADICTION, *self.categories)) != sorted(self.labels):
            raise InputError(
                f"{name}: its stages are {', '.join(self.categories)}; there must be one for each category"
            )

    @classmethod
    def load(cls, folder: str | Path, device: str | None = None) -> Self:
        """Loads the stages that a folder's ``stages.json`` names.

        Raises:
            InputError: the file names no usable stages.
        """
        folder = Path(folder)
        try:
            names = read_json(folder / FILE)["stages"]
            places = [folder / str(name) for name in names]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f'{folder / FILE}: must be {{"stages": [folder, ...]}} ({error!r})') from None
        return cls([ContradictionDetector.from_pretrained(place, device=device) for place in places], str(folder))

    def judge(
        self,
        rows: Sequence[Mapping[str, str]],
        *,
        batch_size: int = 32,
        on_batch: Callable[[int], Any] | None = None,
    ) -> list[Judgement]:
        """Judges the reply of each row by all stages; progress is reported by the last one."""
        heard = [
            stage.judge(rows, batch_size=batch_size, on_batch=on_batch if stage is self.stages[-1] else None)
            for stage in self.stages
        ]
        return [self._decide(each) for each in zip(*heard, strict=True)]

    def _decide(self, heard: Sequence[Judgement]) -> Judgement:
        scores = dict.fromkeys(self.labels, 0.0)
        silent, label = 1.0, None
        for category, judgement in zip(self.categories, heard, strict=True):
            fires = judgement.scores[category]
            scores[category] = silent * fires
            silent *= 1 - fires
            if label is None and judgement.label == category:
                label = category
        scores[NON_CONTRADICTION] = silent
        return Judgement(
            label=label or NON_CONTRADICTION,
            merged=CONTRADICTION if label else NON_CONTRADICTION,
            scores=scores,
            tokens_cut=max(each.tokens_cut for each in heard),
        )
