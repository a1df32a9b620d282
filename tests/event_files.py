"""What TensorBoard would draw, read from its files."""

import struct

from tensorboardX.proto.event_pb2 import Event


def scalars(folder):
    """All scalars in the event files below a folder: tag -> [(step, value)]."""
    found = {}  # a record is its length in 8 bytes, a check in 4, the event, a check in 4
    for path in sorted(folder.rglob("events.out.tfevents.*")):
        data, place = path.read_bytes(), 0
        while place < len(data):
            (length,) = struct.unpack_from("<Q", data, place)
            event = Event.FromString(data[place + 12 : place + 12 + length])
            place += 16 + length
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found
