"""Recipes and records of runs, a full disk, decision rules, and curves of TensorBoard, for tests."""

import resource
import struct
from contextlib import contextmanager
from pathlib import Path

from tensorboardX.proto.event_pb2 import Event

from contradiction.decision import Point, Rule
from contradiction.runs import train_run
from contradiction.training import record
from contradiction.training.run import Run

# The size of an encoder with random weights that trains in seconds, and the same in a recipe without tables.
TINY = {"hidden_size": 32, "layers": 1, "heads": 2, "vocabulary": 600}
FAST = {"config": "4-class", "scratch": TINY, "learning_rate": 3e-3, "class_weights": "balanced"}
TINY_TOML = "[scratch]\n" + "".join(f"{name} = {size}\n" for name, size in TINY.items())

TINY_RECIPE = 'config = "4-class"\nview = "flatten"\nepochs = 1\n' + TINY_TOML


def train(recipe, data, out, **options):
    """Trains a recipe without writing a card, which takes longer than the training of a tiny encoder."""
    return train_run(Run(recipe, data, Path(out), **options))


@contextmanager
def full_disk(limit):
    """Limits the size of every file to a number of bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def with_options(request, **options):
    """The request of a run with changed recipe values."""
    return {**request, "recipe": record.recipe(request).with_changes(**options).recorded()}


CURVE = (Point(0.9, 0.2, 0.01), Point(0.7, 0.5, 0.05), Point(0.4, 0.8, 0.3))
CHANGES_LABELS = Rule(0.7, {"history": -0.3, "role-confusion": 0.2}, 0.77, 0.4, CURVE)


def scalars(folder):
    """All scalars in the event files below a folder: tag -> [(step, value)]."""
    values_by_tag = {}  # a record: its length (8 bytes), a checksum (4), the event, a checksum (4)
    for path in sorted(folder.rglob("events.out.tfevents.*")):
        data, place = path.read_bytes(), 0
        while place < len(data):
            (length,) = struct.unpack_from("<Q", data, place)
            event = Event.FromString(data[place + 12 : place + 12 + length])
            place += 16 + length
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    values_by_tag.setdefault(value.tag, []).append((event.step, value.simple_value))
    return values_by_tag
