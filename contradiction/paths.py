"""The detector that lies in this repository, and the results that are kept there."""

from pathlib import Path

# An installed package comes without it.
FOLDER = Path(__file__).resolve().parents[1] / "models" / "e5-small-cdconv-soup"
RESULTS = FOLDER.parent / "results"
