"""Stack traces as real components print them, and their causes."""

import pytest

from drctl.connectors.diagnosis import ADVICE, Cause, explain

CONNECT = "org.apache.kafka.connect.errors.ConnectException"
WRAPPED = f"{CONNECT}: An exception occurred in the change event producer."


def stack_trace(*causes: str) -> str:
    """A stack trace with these messages, the outermost first."""
    lines = [causes[0], "\tat org.apache.kafka.connect.runtime.WorkerTask.run(WorkerTask.java:259)"]
    for cause in causes[1:]:
        lines += [f"Caused by: {cause}", "\tat java.base/java.lang.Thread.run(Thread.java:840)"]
        lines += ["\t... 11 more"]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("cause", "causes"),
    [
        (
            Cause.HISTORY_LOST,
            [
                WRAPPED,
                "com.mongodb.MongoCommandException: Command failed with error 286"
                " (ChangeStreamHistoryLost): 'PlanExecutor error during aggregation :: caused by ::"
                " Resume of change stream was not possible, as the resume point may no longer be in"
                " the oplog'",
            ],
        ),
        (
            Cause.HISTORY_LOST,
            [
                "io.debezium.DebeziumException: The connector is trying to read change stream"
                " starting at {sec=1795589317, ord=36, resume_token=IQAAAAJf}, but this is no"
                " longer available on the server. Reconfigure the connector to use a snapshot mode"
                " when needed."
            ],
        ),
        (
            Cause.RESUME_TOKEN,
            [WRAPPED, "MongoCommandException: Command failed with error 260 (InvalidResumeToken)"],
        ),
        (
            Cause.LOGS_PURGED,
            [
                "io.debezium.DebeziumException: The connector is trying to read change stream"
                " starting at PostgresOffsetContext [...], but this is no longer available on the"
                " server. Reconfigure the connector to use a snapshot when needed."
            ],
        ),
        (
            Cause.LOGS_PURGED,
            [
                WRAPPED,
                "com.github.shyiko.mysql.binlog.network.ServerException: Could not find first log"
                " file name in binary log index file",
            ],
        ),
        (
            Cause.AUTHENTICATION,
            [
                WRAPPED,
                "org.postgresql.util.PSQLException: FATAL: password authentication failed for user",
            ],
        ),
        (
            Cause.AUTHENTICATION,
            [
                f"{CONNECT}: Failed to find topics",
                "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed",
            ],
        ),
        (
            Cause.AUTHORIZATION,
            ["org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized: [t]"],
        ),
        (
            Cause.DESERIALIZATION,
            [
                f"{CONNECT}: Tolerance exceeded in error handler",
                "org.apache.kafka.connect.errors.DataException: JsonConverter with schemas.enable",
            ],
        ),
        (
            Cause.UNREACHABLE,
            ["org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node"],
        ),
        (Cause.UNREACHABLE, [WRAPPED, "java.net.ConnectException: Connection refused"]),
        (
            Cause.CONFIGURATION,
            ["org.apache.kafka.common.config.ConfigException: Missing required configuration"],
        ),
        (Cause.TOO_LARGE, [WRAPPED, "org.apache.kafka.common.errors.RecordTooLargeException: x"]),
        (Cause.OTHER, [WRAPPED, "java.lang.NullPointerException: null"]),
    ],
)
def test_causes_of_stack_traces(cause: Cause, causes: list[str]) -> None:
    found = explain(stack_trace(*causes))
    assert found.cause is cause
    assert causes[-1] in found.evidence
    assert found.advice.message


def test_permanent_causes_come_before_transient_ones() -> None:
    lost = stack_trace(
        "org.apache.kafka.common.errors.TimeoutException: Timed out",
        "com.mongodb.MongoCommandException: error 286 (ChangeStreamHistoryLost)",
    )
    assert explain(lost).cause is Cause.HISTORY_LOST
    wrapped = stack_trace(
        "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node",
        "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed",
    )
    assert explain(wrapped).cause is Cause.AUTHENTICATION


def test_only_transient_failures_are_restarted() -> None:
    assert {cause for cause in Cause if cause.passes} == {Cause.UNREACHABLE, Cause.OTHER}
    assert set(ADVICE) == set(Cause)


def test_code_locations_identify_the_cause() -> None:
    address = stack_trace(
        "org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls"
    )
    assert explain(address).cause is Cause.UNREACHABLE
    task = "\n\tat io.confluent.connect.replicator.ReplicatorSourceTask.start(X.java:1)"
    assert explain(address + task).cause is Cause.DESTINATION
    token = stack_trace("JsonParseException: Unrecognized token 'lkc'")
    assert explain(token).cause is Cause.DESERIALIZATION
    sink = "\n\tat org.apache.kafka.connect.runtime.WorkerSinkTask.convertHeadersFor(W.java:1)"
    assert explain(token + sink).cause is Cause.HEADER


def test_an_empty_trace_has_no_known_cause() -> None:
    assert explain("") == explain("\n")
    assert explain("").cause is Cause.OTHER


def test_stack_frames_are_not_evidence() -> None:
    frames = stack_trace("java.lang.IllegalStateException: x") + (
        "\n\tat org.apache.kafka.common.config.ConfigException.lookup(ConfigException.java:1)"
    )
    assert explain(frames).cause is Cause.OTHER
