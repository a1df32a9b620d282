"""Sends the curves of a run to an experiment tracker of accelerate."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelerate.utils import gather_object
from transformers.utils.generic import flatten_dict

from contradiction.errors import InputError, first_line

if TYPE_CHECKING:
    from accelerate import Accelerator

PROJECT = "cdconv"
EVERY = 10  # log the loss and the learning rate every so many steps


def check(name: str) -> str:
    """Returns the name of a tracker that can be used.

    Raises:
        InputError: accelerate knows no such tracker, or its package is not installed.
    """
    from accelerate.tracking import get_available_trackers
    from accelerate.utils import LoggerType

    known = sorted(str(logger) for logger in LoggerType if logger != LoggerType.ALL)
    if name not in known:
        raise InputError(f"--track {name}: no such tracker; the trackers are {', '.join(known)}")
    if name not in map(str, get_available_trackers()):
        raise InputError(f"--track {name}: its package is not installed; pip install {name.replace('_', '-')}")
    return name


class Tracker:
    """Logs the loss of steps and the scores of epochs. All processes use one; without ``log_with`` it logs nothing."""

    def __init__(self, accelerator: "Accelerator") -> None:
        self.accelerator = accelerator
        self.loss, self.rows = 0.0, 0

    def step(self, number: int, loss: float, rows: int, rate: float) -> None:
        """Logs, every ``EVERY`` steps, the learning rate and the mean loss of a row since the last entry.

        The first entry after a resume is the mean since the resume. ``number`` counts from 1 over all epochs; ``loss``
        is the sum over the rows of this process.
        """
        if not self.accelerator.log_with:
            return
        self.loss, self.rows = self.loss + loss, self.rows + rows
        if number % EVERY == 0:
            sums = gather_object([(self.loss, self.rows)])
            mean = sum(loss for loss, _ in sums) / sum(rows for _, rows in sums)
            self.accelerator.log({"train/loss": mean, "train/learning_rate": rate}, step=number)
            self.loss, self.rows = 0.0, 0

    def epoch(self, number: int, train_loss: float, scores: Mapping[str, Any]) -> None:
        """Logs the validation scores after step ``number``, and the mean loss of the epoch."""
        values = {f"validation/{name}": scores[name] for name in ("macro_f1", "accuracy")}
        self.accelerator.log({"train/epoch_loss": train_loss, **values}, step=number)


@contextmanager
def tracking(accelerator: "Accelerator", config: dict[str, Any], run: str, resumed: bool) -> Iterator[Tracker]:
    """Starts the trackers of an accelerator, and closes them when the block ends, also after an error.

    The curves of a resumed run continue, where the tracker can. Weights & Biases identifies a run by its id: set
    ``WANDB_RUN_ID`` and ``WANDB_RESUME=allow`` in the environment.

    Raises:
        InputError: a tracker cannot be started, for instance without a login.
    """
    if accelerator.log_with:
        options = {"wandb": {"name": run}, "trackio": {"name": run, "resume": "allow" if resumed else "never"}}
        try:
            accelerator.init_trackers(PROJECT, config=_flat(config), init_kwargs=options)
        except Exception as error:  # each tracker raises errors of its own
            raise InputError(f"--track {accelerator.log_with[0]}: cannot be started ({first_line(error)})") from error
    try:
        yield Tracker(accelerator)
    finally:
        # Not accelerator.end_training: it would also end the process group, which the next stage needs.
        for tracker in accelerator.trackers:
            tracker.finish()


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """The values by their full names; TensorBoard accepts no lists, no empty tables and no None."""
    values = {name: value for name, value in flatten_dict(config).items() if value not in (None, {})}
    return {name: ", ".join(map(str, value)) if isinstance(value, list) else value for name, value in values.items()}


def folder_of(out: Path) -> Path:
    """The folder for the files of trackers: beside the model folder, because all of the model folder is published."""
    return out.with_name(f"{out.name}.tracking")
