"""What recipes of earlier versions could set: their records still load and show."""

from collections.abc import Mapping
from typing import Any

# Options that this version no longer has, with the value that switched each of them off.
RETIRED: Mapping[str, Any] = {
    "mixed_views": [],
    "patience": None,
    "accumulate": 1,
    "layer_decay": 1.0,
    "focal": 0.0,
    "label_smoothing": 0.0,
    "r_drop": 0.0,
    "kernel": 0.0,
    "embedder": None,
    "fgm": 0.0,
}


def without_retired(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits the values of a recipe into those that this version has, and the retired options that were switched on."""
    current = {key: value for key, value in values.items() if key not in RETIRED}
    retired = {key: value for key, value in values.items() if key in RETIRED and value != RETIRED[key]}
    return current, retired
