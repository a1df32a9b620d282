"""Counts of requests in the text format of Prometheus."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from threading import Lock

BOUNDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # seconds


class Metrics:
    """Counts answers by path and status, and how long they took.

    Args:
        paths: the paths that are counted by name; all others count as ``other``, so that no caller can make names.
    """

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._paths, self._lock = paths, Lock()
        self._answers: Counter[tuple[str, int]] = Counter()
        self._within: Counter[tuple[str, float]] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def add(self, path: str, status: int, seconds: float) -> None:
        """Counts one answer."""
        name = path if path in self._paths else "other"
        with self._lock:
            self._answers[name, status] += 1
            self._seconds[name] += seconds
            for bound in BOUNDS:
                self._within[name, bound] += seconds <= bound

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """All counts, and gauges by name: what they are, and their value."""
        with self._lock:
            answers, within, seconds = dict(self._answers), dict(self._within), dict(self._seconds)
        lines = ["# HELP cdconv_requests_total Answers by path and status.", "# TYPE cdconv_requests_total counter"]
        lines += [
            f'cdconv_requests_total{{path="{path}",status="{status}"}} {count}'
            for (path, status), count in sorted(answers.items())
        ]
        lines += ["# HELP cdconv_request_seconds Time to answer.", "# TYPE cdconv_request_seconds histogram"]
        for path in sorted(seconds):
            count = sum(number for (name, _), number in answers.items() if name == path)
            buckets = [(f"{bound:g}", within.get((path, bound), 0)) for bound in BOUNDS] + [("+Inf", count)]
            lines += [f'cdconv_request_seconds_bucket{{path="{path}",le="{le}"}} {number}' for le, number in buckets]
            lines.append(f'cdconv_request_seconds_sum{{path="{path}"}} {seconds[path]:.6f}')
            lines.append(f'cdconv_request_seconds_count{{path="{path}"}} {count}')
        for name, (help, value) in gauges.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP {name} {help}", f"# TYPE {name} {kind}", f"{name} {value}"]
        return "\n".join(lines) + "\n"
