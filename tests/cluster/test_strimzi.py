"""Fences and stops that Strimzi's operators undo: what drctl says before and after a failover."""

import re
from datetime import UTC, datetime
from urllib.request import urlopen

import pytest

from tests.cluster.failover_stage import APP, Stage, connect
from tests.cluster.isolated_links import OwnLinks, at_work
from tests.cluster.link_command import GO, soon
from tests.cluster.strimzi import Operators
from tests.kafka.tls_broker import free_ports

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(300)]

NAME = "primary->secondary-{}.MirrorSourceConnector"
MANAGED = "connectors-managed-elsewhere"


def moved(stage: Stage) -> dict[str, dict[str, str]]:
    """What `drctl status` says of a link whose clients were moved, by subject."""
    found = stage.json("status", code=1)["planned"]["blockers"]
    return {each["subject"]: each for each in found if each["check"] == "clients-moved"}


def checks(said: str) -> dict[datetime, str]:
    """The lines of `drctl status --watch`, by when the check of each began, to the second."""
    found = re.findall(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC; (.*)\n", said, re.MULTILINE)
    return {datetime.fromisoformat(at).replace(tzinfo=UTC): line for at, line in found}


def test_what_operators_undo_is_said_before_and_after_a_failover(links: OwnLinks) -> None:
    stage = links.make(NAME)
    at_work(stage)
    (refused,) = (
        each for each in stage.json("failover", code=3)["refused"] if each["precheck"] == MANAGED
    )
    assert f"Strimzi manages {stage.copies}" in refused["reason"]
    metrics = f"127.0.0.1:{free_ports(1)[0]}"
    with connect(stage.lab) as worker:
        operators = Operators(stage.source, worker, stage.copies)
        stage.json("failover", "--override", f"{MANAGED}=seen", *GO, code=0)
        (before,) = moved(stage).values()
        assert "is fenced: its ACLs deny writes" in before["evidence"]
        assert "reads of 1 topic and 1 group" in before["evidence"]

        with stage.running("status", "--every", "2s", "--listen", metrics) as watching:
            stage.until(watching, lambda: len(checks(stage.said)) > 1)
            held = stage.said
            operators.reconcile()
            soon(lambda: worker.status(stage.copies).all_in("RUNNING"))
            undone = datetime.now(UTC)
            stage.until(watching, lambda: max(checks(stage.said)) > undone)
            seen = stage.said
            with urlopen(f"http://{metrics}/metrics", timeout=10) as page:
                numbers = page.read().decode()
        said = moved(stage)
    fence, connector = "fence of cluster primary", f"connector {stage.copies}"
    assert fence not in held
    assert connector not in held
    first = next(line for at, line in checks(seen).items() if at > undone)
    assert f"{fence}: 3 of 3 ACLs of the fence are missing" in first
    assert f"{connector}: it is RUNNING" in first
    for subject in (fence, connector):
        assert re.search(rf'^drctl_status_undone{{.*subject="{subject}"}} 1.0$', numbers, re.M)

    assert said.keys() == {before["subject"], fence, connector}
    assert said[fence]["evidence"] == (
        f"User:{APP} may write to {stage.topic}; User:{APP} may read {stage.topic};"
        f" User:{APP} may use group {stage.group}"
    )
    assert "Strimzi resumes it" in said[connector]["remedy"]
