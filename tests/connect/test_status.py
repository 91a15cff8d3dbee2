"""What is read from a worker's status response."""

import pytest

from drctl.connect.connectors import read_connector


@pytest.mark.parametrize(
    ("stack_trace", "reduced"),
    [
        ("", ""),
        ("a.ConnectException: it ended\n\tat a.B.c(B.java:1)\n", "a.ConnectException: it ended"),
        (
            "a.ConnectException: it ended\n\tat a.B.c\nCaused by: x.Y: first\n\tat x.Y.z\n"
            "Caused by: a.Denied: [orders]\n\t... 3 more\n",
            "a.ConnectException: it ended; by a.Denied: [orders]",
        ),
    ],
)
def test_a_stack_trace_is_reduced_to_its_first_line_and_causes(
    stack_trace: str, reduced: str
) -> None:
    task = {"id": 0, "state": "FAILED", "worker_id": "w", "trace": stack_trace}
    status = read_connector(
        "c", {"connector": {"state": "RUNNING", "worker_id": "w"}, "tasks": [task]}
    )
    assert status.stack_traces == ((reduced,) if reduced else ())
