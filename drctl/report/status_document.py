"""What `status` saw, as the document `drctl/status/1`."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from drctl.checks.causes import Unseen, told_once
from drctl.checks.go import NOT_ASKED, Answer, StatusNow
from drctl.checks.rpo import Rpo, TopicRpo
from drctl.model.connectors import Connector
from drctl.model.topology import Unavailable
from drctl.report.finding_json import causes_json, finding_json

SCHEMA = "drctl/status/1"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def status_document(seen: StatusNow) -> dict[str, Any]:
    """All of it."""
    every = (*seen.planned.blockers, *seen.unplanned.blockers, *seen.others)
    told = told_once(every)[1]
    return {
        "schema": SCHEMA,
        "link": seen.link,
        "source": _cluster(seen.source, seen.source_id),
        "target": _cluster(seen.target, seen.target_id),
        "at": (_EPOCH + timedelta(milliseconds=seen.at_ms)).isoformat(timespec="milliseconds"),
        "seconds": round(seen.took_s, 3),
        "planned": _answer(seen.planned, told),
        "unplanned": _answer(seen.unplanned, told),
        "others": [finding_json(each, told) for each in seen.others],
        "causes": causes_json(told),
        "not_asked": list(NOT_ASKED),
        "rpo": {
            **_rpo(seen.rpo),
            "allowed_records": seen.allowed.max_lag_records,
            "allowed_seconds": seen.allowed.max_rpo_seconds,
        },
        "topics": [_topic(each) for each in seen.topics],
        "connectors": [_connector(each) for _, each in sorted(seen.connectors.items())],
        "groups": {
            "groups": seen.groups.groups,
            "positions": seen.groups.positions,
            "groups_left_out": len(seen.groups.groups_left_out),
            "unknown": seen.groups.unknown,
            "left_out": [
                {
                    "group": row.group,
                    "topic": row.partition.topic,
                    "partition": row.partition.partition,
                    "reason": row.reason,
                }
                for row in seen.groups.left_out
            ],
        },
    }


def _cluster(name: str, identity: str | Unavailable) -> dict[str, Any]:
    silent = isinstance(identity, Unavailable)
    return {
        "cluster": name,
        "id": None if isinstance(identity, Unavailable) else identity,
        "answers": not silent,
        "reason": identity.reason if isinstance(identity, Unavailable) else "",
    }


def _answer(answer: Answer, told: Sequence[Unseen]) -> dict[str, Any]:
    return {"go": answer.go, "blockers": [finding_json(each, told) for each in answer.blockers]}


def _rpo(rpo: Rpo) -> dict[str, Any]:
    return {**rpo.lost.to_json(), "seconds": _rounded(rpo.seconds), "how": rpo.how}


def _topic(row: TopicRpo) -> dict[str, Any]:
    return {
        "topic": row.topic,
        "target_topic": row.target_topic,
        "partitions": row.partitions,
        "unknown_partitions": row.unknown,
        "records": row.rpo.records,
        "at_most": row.rpo.at_most,
        "seconds": _rounded(row.rpo.seconds),
        "how": row.rpo.how,
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _connector(each: Connector) -> dict[str, Any]:
    tasks = Counter(task.state for task in each.tasks)
    return {"name": each.name, "kind": each.kind, "state": each.state, "tasks": dict(tasks)}
