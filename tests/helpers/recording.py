"""A detector that keeps what its classifier reads."""

from contradiction.detector import ContradictionDetector
from contradiction.methods.checkpoint import CheckpointClassifier


class RecordingClassifier(CheckpointClassifier):
    """Keeps the rows of each call, and fails on request."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.calls, self.broken = [], False

    def predict(self, rows, **options):
        if self.broken:
            raise RuntimeError("out of memory")
        self.calls.append(list(rows))
        return super().predict(rows, **options)

    def counts(self):
        """How many rows each call read."""
        return list(map(len, self.calls))


def recording(folder) -> ContradictionDetector:
    return ContradictionDetector(RecordingClassifier.load(folder))
