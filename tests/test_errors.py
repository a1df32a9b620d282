"""How errors are described, whatever a library puts into them."""

import pytest

from contradiction.errors import first_line


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError("\n  no such model\nwith a trace"), "no such model"),
        (OSError(2, "No such file"), "[Errno 2] No such file"),
        (ValueError(), "ValueError"),
        (ConnectionError(" \n"), "ConnectionError"),
    ],
)
def test_an_error_is_described_by_its_first_line_or_else_by_its_type(error, message):
    assert first_line(error) == message
