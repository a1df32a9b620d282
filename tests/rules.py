"""A decision rule for tests, and the curve that thresholds are looked up on."""

from contradiction.methods.decision import Point, Rule

CURVE = (Point(0.9, 0.2, 0.01), Point(0.7, 0.5, 0.05), Point(0.4, 0.8, 0.3))
CHANGES_LABELS = Rule(0.7, {"history": -0.3}, {"role-confusion": 0.2}, 0.77, 0.4, CURVE)
