"""Finds contradictions in conversations: chat messages in, verdicts out. Trains and evaluates detectors.

>>> from contradiction import ContradictionDetector
>>> detector = ContradictionDetector.from_pretrained("models/e5-small-long-replies")  # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contradiction.detector import ContradictionDetector
    from contradiction.evaluation.evaluate import evaluate
    from contradiction.monitor import Monitor
    from contradiction.runs import train
    from contradiction.verdict import Verdict

__all__ = ["ContradictionDetector", "Monitor", "Verdict", "evaluate", "train"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Late, so that `import contradiction.labels` and `cdconv --help` do not pay for torch.
    if name in __all__:
        modules = {"Monitor": "monitor", "Verdict": "verdict", "evaluate": "evaluation.evaluate", "train": "runs"}
        return getattr(import_module(f"{__name__}.{modules.get(name, 'detector')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
