"""Finds contradictions in conversations: chat messages in, verdicts out.

>>> from contradiction import ContradictionDetector
>>> detector = ContradictionDetector.from_pretrained("models/e5-small-long-replies")  # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contradiction.detector import ContradictionDetector
    from contradiction.monitor import Monitor
    from contradiction.verdict import Verdict

__all__ = ["ContradictionDetector", "Monitor", "Verdict"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Late, so that `import contradiction.labels` and `cdconv --help` do not pay for torch.
    if name in __all__:
        from contradiction import detector, monitor, verdict

        return getattr({"Monitor": monitor, "Verdict": verdict}.get(name, detector), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
