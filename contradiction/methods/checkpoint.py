"""The classifier of one checkpoint."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from contradiction.errors import InputError
from contradiction.inference.torch_backend import (
    Scores,
    check_fast_enough,
    check_precision,
    knows,
    load_checkpoint,
    score,
)
from contradiction.inputs.characters import simplified
from contradiction.inputs.views import STATED, VIEWS, Row, model_input
from contradiction.io.files import read_json, write_json
from contradiction.io.hub import CONFIG
from contradiction.labels import LABELS, task_with
from contradiction.methods.base import OnBatch
from contradiction.methods.decision import FILE, Rule
from contradiction.methods.probabilistic import LabelClassifier

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class CheckpointClassifier(LabelClassifier):
    """A classifier of one checkpoint.

    Args:
        model: a sequence-classification model whose configuration names the labels; it is set to evaluation mode.
        tokenizer: its tokenizer.
        view: the utterances it reads (a key of ``contradiction.inputs.views.VIEWS``); by default what its
            configuration says.
        name: how messages name it.
        rule: its decision rule.
        precision: of the arithmetic, one of ``contradiction.inference.torch_backend.PRECISIONS``. ``bf16`` is faster
            on a CPU that has the instructions, and moves probabilities a little (``docs/operators.md`` has both in
            figures); ``fp16`` is for GPUs.

    Raises:
        InputError: the label names, the view or the precision are unknown.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerBase",
        view: str | None = None,
        name: str = "model",
        rule: Rule | None = None,
        precision: str = "fp32",
    ) -> None:
        self.labels = tuple(label for _, label in sorted((model.config.id2label or {}).items()))
        task = task_with(self.labels)
        if task is None:
            known = "; ".join(", ".join(names) for names in LABELS.values())
            raise InputError(f"{name}: its labels are {', '.join(self.labels)}; a detector's are one of: {known}")
        view = view or str(getattr(model.config, STATED, ""))
        if view not in VIEWS:
            wrong = f"there is no view {view!r}" if view else "its configuration does not say which utterances it reads"
            raise InputError(f"{name}: {wrong}; views are {', '.join(VIEWS)}")
        self.model, self.tokenizer, self.name, self.task = model.eval(), tokenizer, name, task
        self.columns = VIEWS[view]
        self.rule, self.precision = rule or Rule(), check_precision(precision)
        check_fast_enough(precision, model.device.type, name)

    @classmethod
    def load(
        cls, name: str | Path, *, view: str | None = None, device: str | None = None, precision: str = "fp32"
    ) -> Self:
        """Loads a checkpoint and its decision rule from a folder or from the Hub.

        A rule holds for the view that it was chosen with; with another one it is left out.

        Raises:
            InputError: there is no such checkpoint, it is no classifier of this project, or the Hub cannot be asked
                whether it has a rule.
        """
        check_precision(precision)  # before a large model is loaded
        model, tokenizer = load_checkpoint(name, device)
        stated = getattr(model.config, STATED, None)
        own = stated is not None and view in (None, stated)
        return cls(model, tokenizer, view, str(name), Rule.load(_rule_folder(name)) if own else None, precision)

    def model_input(self, utterances: Row) -> dict[str, str]:
        """What the checkpoint reads of a row: the input of a text-classification pipeline on it."""
        return model_input(utterances, self.columns, self.tokenizer)

    def _score(self, rows: Sequence[Row], batch_size: int, on_batch: OnBatch | None) -> Scores:
        inputs = [self.model_input(row) for row in rows]
        return score(
            self.model, self.tokenizer, inputs, batch_size=batch_size, on_batch=on_batch, precision=self.precision
        )

    def knows(self, text: str) -> bool:
        """Whether the model has a token of its own for any part of a text."""
        return knows(self.tokenizer, simplified(text))


def demand_no_other_view(folder: Path, view: str) -> None:
    """Raises InputError where a checkpoint says already that it reads other utterances, or there is no checkpoint."""
    file = folder / CONFIG
    if not file.is_file():
        raise InputError(f"{folder}: the folder holds no checkpoint (no {CONFIG}) that could read a view")
    if (stated := read_json(file).get(STATED, view)) != view:
        raise InputError(f"{file}: reads {stated}, not {view}; leave the view out")


def state_view(folder: Path, view: str) -> None:
    """Writes into the configuration of a checkpoint from elsewhere which utterances it reads."""
    write_json(folder / CONFIG, read_json(folder / CONFIG) | {STATED: view})


def named_in(file: Path, key: str) -> list[Path]:
    """The folders of checkpoints that a file, which lies beside them, names in a list under a key.

    Raises:
        InputError: it names none.
    """
    names = read_json(file).get(key)
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise InputError(f'{file}: must be {{"{key}": [folder, ...]}}')
    return [file.parent / name for name in names]


def _rule_folder(name: str | Path) -> Path:
    """The folder in which the rule of a model lies, fetched where ``name`` is a Hub id."""
    if Path(name).is_dir():
        return Path(name)
    from contradiction.io.hub import fetched

    file = fetched(str(name), FILE)
    return file.parent if file else Path(name)
