"""A metric for DeepEval: the share of the replies of a conversation that contradict nothing.

from contradiction.integrations.deepeval import ContradictionMetric

evaluate(test_cases=[ConversationalTestCase(turns=[...])], metrics=[ContradictionMetric()])
"""

import asyncio
from pathlib import Path
from typing import Any

from deepeval.metrics import BaseConversationalMetric
from deepeval.test_case import ConversationalTestCase

from contradiction.detector import ContradictionDetector
from contradiction.testing import inspect, load


class ContradictionMetric(BaseConversationalMetric):
    """The share of the checked replies that contradict neither themselves, nor the roles, nor an earlier message.

    No language model is asked, unless the detector is a judge. ``reason`` shows the chat with the contradictions.

    Args:
        detector: the detector, or its folder or Hub id; by default as in
            :func:`contradiction.testing.assert_consistent`.
        threshold: the lowest share that passes; by default every reply must be consistent.
        allow_unchecked: passes test cases with replies that could not be read completely or could not be judged.
    """

    def __init__(
        self,
        detector: ContradictionDetector | str | Path | None = None,
        threshold: float = 1.0,
        allow_unchecked: bool = False,
    ) -> None:
        # DeepEval copies a metric by the attributes that its arguments are named after.
        self.detector, self.threshold, self.allow_unchecked = detector, threshold, allow_unchecked

    @property
    def __name__(self) -> str:
        return "Contradiction"

    def measure(self, test_case: ConversationalTestCase, *args: Any, **kwargs: Any) -> float | None:
        """The score of a conversation; None if no reply could be checked."""
        messages = [{"role": turn.role, "content": turn.content} for turn in test_case.turns]
        found = inspect(load(self.detector), messages)
        checked = len(found.verdicts) - len(found.unchecked)
        self.score = 1 - len(found.contradictions) / checked if checked else None
        passed = self.score is None or self.score >= self.threshold
        self.success = passed and (self.allow_unchecked or not found.unchecked)
        self.reason = found.report()
        return self.score

    async def a_measure(self, test_case: ConversationalTestCase, *args: Any, **kwargs: Any) -> float | None:
        """The same, in a thread."""
        return await asyncio.to_thread(self.measure, test_case)

    def is_successful(self) -> bool:
        """Whether the last conversation passed."""
        return self.error is None and bool(self.success)
