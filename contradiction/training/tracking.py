"""Sends a run's curves to an experiment tracker, through accelerate's own interface."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelerate.utils import gather_object

from contradiction.errors import InputError, first_line

if TYPE_CHECKING:
    from accelerate import Accelerator

PROJECT = "cdconv"
EVERY = 10  # steps between two entries of loss and rate
# Trackers that accelerate knows, and the packages to install where their names differ.
PACKAGES = {"comet_ml": "comet-ml"}


def check(name: str) -> str:
    """The tracker's name, if it can be used.

    Raises:
        InputError: accelerate knows no such tracker, or its package is not installed.
    """
    from accelerate.tracking import get_available_trackers
    from accelerate.utils import LoggerType

    known = sorted(str(each) for each in LoggerType if each != LoggerType.ALL)
    if name not in known:
        raise InputError(f"--track {name}: no such tracker; there are {', '.join(known)}")
    if name not in map(str, get_available_trackers()):
        raise InputError(f"--track {name}: its package is not installed; pip install {PACKAGES.get(name, name)}")
    return name


class Tracker:
    """Takes losses a step and scores an epoch; without a tracker chosen it does nothing. All processes have one.

    Args:
        accelerator: made with ``log_with``, or without.
    """

    def __init__(self, accelerator: "Accelerator") -> None:
        self.accelerator = accelerator
        self.loss, self.rows = 0.0, 0

    def step(self, number: int, loss: float, rows: int, rate: float) -> None:
        """Every ``EVERY`` steps: the mean loss a row since the last entry, over all processes, and the rate.

        The first entry of a run that goes on inside an epoch is the mean since then.

        Args:
            number: of the step, from 1 over all epochs.
            loss: the sum over the step's rows that this process read.
            rows: how many these are; the last step of an epoch may have fewer.
            rate: the learning rate.
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
        """The scores on the validation split after step ``number``, and the mean loss of the whole epoch."""
        values = {f"validation/{name}": scores[name] for name in ("macro_f1", "accuracy")}
        self.accelerator.log({"train/epoch_loss": train_loss, **values}, step=number)


@contextmanager
def tracking(
    accelerator: "Accelerator", config: Mapping[str, Any], run: str, resumed: bool = False
) -> Iterator[Tracker]:
    """Opens the accelerator's trackers for a run named ``run``, and closes them however the block ends.

    Args:
        accelerator: names the trackers.
        config: the recipe's values; nested ones get names with a dot, lists become text, those not set are left out.
        run: the run's name, where the tracker takes one.
        resumed: it goes on with the curves of that name, where the tracker can find them by it. Weights & Biases
            knows a run by its id alone: there ``WANDB_RUN_ID`` and ``WANDB_RESUME=allow`` in the environment do it.

    Raises:
        InputError: a tracker cannot be started, for instance because nobody has logged in to it.
    """
    if accelerator.log_with:
        options = {"wandb": {"name": run}, "trackio": {"name": run, "resume": "allow" if resumed else "never"}}
        try:
            accelerator.init_trackers(PROJECT, config=dict(_flat(config)), init_kwargs=options)
        except Exception as error:  # each tracker has errors of its own, and is not a part of what is trained
            raise InputError(f"--track {accelerator.log_with[0]}: cannot be started ({first_line(error)})") from error
    try:
        yield Tracker(accelerator)
    finally:
        # Not accelerator.end_training, which also ends the process group, and the next stage needs that.
        for each in accelerator.trackers:
            each.finish()


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple):  # which TensorBoard takes none of
            yield f"{prefix}{name}", ", ".join(map(str, value))
        elif value is not None:
            yield f"{prefix}{name}", value


def folder_of(out: Path) -> Path:
    """Where trackers that write files put them: beside the model folder, which is published as it is."""
    return out.with_name(f"{out.name}.tracking")
