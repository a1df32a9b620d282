"""A detection: all chats of an input, with one detector, into an output that a killed run continues."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from contradiction.chats.chunks import JudgedChunk, OnChunk, Tally, Workers, judge_in_turn, split_chunks
from contradiction.chats.entries import Chats
from contradiction.chats.messages import USUAL, Speakers
from contradiction.chats.writers import ResumableOutput, ShownOutput
from contradiction.detector import ContradictionDetector
from contradiction.io.files import RECORD, sha256_of
from contradiction.io.hub import fetch_file
from contradiction.methods.loading import METHODS
from contradiction.settings import Settings

# The types of files in a model folder that affect its verdicts; the card and the record of the training do not.
MODEL_FILES = (".bin", ".json", ".model", ".onnx", ".safetensors", ".txt")


@dataclass(frozen=True)
class Detection:
    """What is judged with, and how.

    Attributes:
        model: a model folder or Hub id.
        settings: of the operator, by their names in :class:`contradiction.settings.Settings`.
        backend, precision, device: see :meth:`contradiction.detector.ContradictionDetector.from_pretrained`.
        speakers: the names of the two sides.
        scan: judges every reply of a chat, not only the last one.
        batch_size: windows per forward pass.
        workers: the number of processes; None for one, or on Ray for one on each core.
    """

    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    backend: str = "torch"
    precision: str = "fp32"
    device: str | None = None
    speakers: Speakers = USUAL
    scan: bool = False
    batch_size: int = 32
    workers: int | None = None

    def load(self, device: str | None = None) -> ContradictionDetector:
        """Loads the detector, by default on ``self.device``."""
        return ContradictionDetector.from_pretrained(
            self.model, device=device or self.device, precision=self.precision, backend=self.backend, **self.settings
        )

    def request(self, source: Path | str | None, **options: Any) -> dict[str, Any]:
        """What affects the verdicts on a file, as JSON: the model, the input, the settings, and further options.

        The model and the file, which may be no file or a digest, are identified by their content, not by their place.
        """
        settings = Settings(**self.settings)
        return {
            "model": _model_digest(self.model),
            "input": _digest([source]) if isinstance(source, Path) else source,
            "backend": self.backend,
            "precision": self.precision,
            "scan": self.scan,
            **options,
            "users": [*self.speakers.users],
            "bots": [*self.speakers.bots],
            **asdict(settings),
            "categories": [*settings.categories],
        }

    def run(
        self,
        chats: Chats,
        begin: Callable[[], ResumableOutput | ShownOutput],
        *,
        on_chunk: OnChunk | None = None,
        on_note: Callable[[str], Any] = str,
    ) -> tuple[Tally, Path | None]:
        """Judges all chats; returns the counts, and the file of the rejected inputs if there is one.

        Args:
            chats: the chats.
            begin: opens the output, once the detector is loaded.
            on_chunk: see :func:`contradiction.chats.chunks.judge_in_turn`.
            on_note: called with a message for each rejected input, and where a process was killed.

        Raises:
            InputError: the detector cannot be loaded or judges no replies, or the input cannot be read further.
        """
        options: dict[str, Any] = {"scan": self.scan, "batch_size": self.batch_size}
        tally = Tally()
        with ExitStack() as stack:
            judge: Callable[..., Iterator[JudgedChunk]]
            if self.workers and self.workers > 1:
                judge = stack.enter_context(
                    Workers(self.workers, self.load, chats.key, on_note=on_note, **options)
                ).judge
            else:
                detector = self.load()
                detector.check_judges_replies()
                judge = partial(judge_in_turn, detector, chats.key, **options)
            output = begin()
            stack.callback(output.release)
            for chunk in judge(output.remaining(split_chunks(chats, self.scan), tally), on_chunk=on_chunk):
                tally.add(chunk.records, len(chunk.rejected))
                for record in chunk.rejected:
                    on_note(f"{chats.place(record[chats.key])}: {record['error']}")
                output.add(chunk)
        return tally, output.rejected_path


def _model_digest(model: str) -> str:
    # All files of a model that is loaded are in one folder, which may be in the cache.
    marker = next(filter(None, (fetch_file(model, method.MARKER) for method in METHODS)), None)
    folder = marker.parent if marker else Path(model)
    files = (file for file in folder.rglob("*") if file.suffix in MODEL_FILES and file.name != RECORD)
    return _digest(sorted(files))


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(bytes.fromhex(sha256_of(path)))
    return digest.hexdigest()
