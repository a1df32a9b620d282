"""Scores detectors on labelled rows: metrics with intervals, baselines, and comparisons."""
