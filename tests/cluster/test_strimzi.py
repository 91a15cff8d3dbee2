"""Strimzi's operators undo fences and stops: what drctl reports before and after a failover."""

import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import pytest
import yaml

import drctl
from drctl.model.fencing import PROBE_TOPIC
from tests.cluster.failover_stage import APP, Stage, connect
from tests.cluster.isolated_links import OwnLinks, at_work
from tests.cluster.killing import killed_at
from tests.cluster.link_command import GO, NOTHING_LOST, soon, steps_of
from tests.cluster.strimzi import Operators, ResourceOperators
from tests.cluster.topic_acls import denials
from tests.kafka.tls_broker import free_ports

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

NAME = "primary->secondary-{}.MirrorSourceConnector"
MANAGED = "connectors-managed-elsewhere"


def moved(stage: Stage) -> dict[str, dict[str, str]]:
    """Return what `drctl status` reports of a link whose clients moved, by subject."""
    found = stage.json("status", code=1)["planned"]["blockers"]
    return {each["subject"]: each for each in found if each["check"] == "clients-moved"}


def checks(output: str) -> dict[datetime, str]:
    """Return the lines of `drctl status --watch` by the start of each check, to the second."""
    found = re.findall(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC; (.*)\n", output, re.MULTILINE)
    return {datetime.fromisoformat(at).replace(tzinfo=UTC): line for at, line in found}


def fence(stage: Stage) -> dict[str, str]:
    """Return the fence's finding of `drctl doctor`."""
    found = stage.run("doctor", "--output", "json").document()["checks"]
    return next(each for each in found if each["check"] == "fence-not-possible")


def probed(stage: Stage, watched: str) -> str:
    """Return the result of a probe; assert that none of its ACLs remains."""
    done = stage.json("doctor", "--fence-probe", watched, *GO, code=0)
    assert denials(stage.source, PROBE_TOPIC) == 0
    return str(steps_of(done, "detail")["probe-acls"])


@pytest.mark.nightly
def test_a_fence_that_an_operator_would_delete_is_refused_in_the_plan(links: OwnLinks) -> None:
    """Until a later probe sees that ACLs stay."""
    stage = links.make()
    stage.written(50)
    assert "was not probed" in fence(stage)["evidence"]
    plan = stage.json("doctor", "--fence-probe", "3s", code=0)
    assert [step["id"] for step in plan["steps"]] == ["probe-acls", "remove-probe-acls"]
    assert denials(stage.source, PROBE_TOPIC) == 0

    with connect(stage.lab) as worker:
        operators = Operators(stage.source, worker, stage.copies)
        with operators.at_work():
            assert "somebody deleted 2 of 2 ACLs within" in probed(stage, "30s")
        assert operators.deleted == 2
    found = fence(stage)
    assert found["status"] == "fail"
    assert found["reason"].startswith("something deletes the ACLs that drctl adds")
    assert "method: command" in found["remedy"]
    refusal = stage.refused("failover", *GO)
    assert "something deletes the ACLs that drctl adds" in refusal
    assert "method: command" in refusal
    assert denials(stage.source, stage.topic) == 0

    assert "2 ACLs stayed for 3" in probed(stage, "3s")
    assert "nothing deleted them" in fence(stage)["evidence"]
    stage.json("failover", *GO, code=0)
    (held,) = moved(stage).values()
    assert "is fenced" in held["evidence"]


def test_a_killed_probe_leaves_no_acl_once_it_is_resumed(links: OwnLinks) -> None:
    stage = links.make()
    killed_at(stage, "before", "probe-acls", "doctor", "--fence-probe", "2s", *GO)
    assert denials(stage.source, PROBE_TOPIC) == 2
    stage.json("resume", *GO, code=0)
    assert denials(stage.source, PROBE_TOPIC) == 0
    assert "nothing deleted them" in fence(stage)["evidence"]


PAGE = Path(drctl.__file__).parents[1] / "docs/howto/strimzi.md"


@pytest.mark.nightly
def test_the_scripts_of_the_page_fence_and_stop_for_good(links: OwnLinks, tmp_path: Path) -> None:
    """Against operators that apply the resources, and delete and resume everything else."""
    text = PAGE.read_text(encoding="utf-8").replace("/opt/drctl", str(tmp_path))
    fencing, stopping = re.findall(r"^```text\n(#!/bin/sh\n.*?)^```", text, re.M | re.S)
    (configuration,) = re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S)
    section = yaml.safe_load(configuration)["links"]["orders"]
    replicator = {**section["replicator"], "rename": "${topic}"}
    stage = links.make(NAME, fence=section["fence"], replicator=replicator)
    connector = NAME.format(stage.topic)
    stage.written(50)
    with connect(stage.lab) as worker:
        url = stage.lab.parts.worker.url
        operators = ResourceOperators(tmp_path, stage.source, worker, connector, url)
        operators.script(fencing.replace('"orders"', f'"{stage.topic}"'), "fence-orders")
        named = quote(connector)
        operators.script(stopping.replace("a-%3Eb.MirrorSourceConnector", named), "mm2")

        def script(name: str, word: str) -> int:
            argv = [tmp_path / name, word]
            return subprocess.run(argv, env={}, timeout=60, check=False).returncode

        def fence(*words: str) -> list[int]:
            return [script("fence-orders", word) for word in words]

        def reconciled() -> None:
            seen = operators.rounds
            soon(lambda: operators.rounds > seen + 1)

        with operators.at_work():
            assert fence("lift", "verify", "set", "set", "verify") == [0, 1, 0, 0, 0]
            assert stage.write(1, "fenced") == []
            assert fence("lift", "lift", "verify") == [0, 0, 1]
            assert len(stage.write(5, "lifted")) == 5
            stage.copied(55)

            # The drain of a failover cannot end while replication is stopped.
            assert [script("mm2", word) for word in ("verify", "stopped")] == [1, 0]
            soon(lambda: script("mm2", "verify") == 0)
            assert len(stage.write(1, "behind")) == 1
            passed = ("--override", "replication-not-running=a drill", "--timeout", "2s")
            failed = stage.json("failover", *passed, *GO, code=3)
            assert steps_of(failed, "status")["fence-producers"] == "rolled-back"
            assert len(stage.write(1, "rolled-back")) == 1
            assert script("mm2", "running") == 0
            stage.copied(57)

            done = stage.json("failover", *GO, code=0)
            assert done["rpo"] == NOTHING_LOST
            reconciled()
            assert stage.write(1, "after") == []
            assert worker.status(connector).state == "STOPPED"
            assert fence("verify") == [0]
        assert operators.deleted == 2, "only the fence that was lifted and the one rolled back"


@pytest.mark.nightly
def test_changes_undone_by_operators_are_reported(links: OwnLinks) -> None:
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
            stage.until(watching, lambda: len(checks(stage.output)) > 1)
            held = stage.output
            operators.reconcile()
            soon(lambda: worker.status(stage.copies).all_in("RUNNING"))
            undone = datetime.now(UTC)
            stage.until(watching, lambda: max(checks(stage.output)) > undone)
            seen = stage.output
            with urlopen(f"http://{metrics}/metrics", timeout=10) as page:
                numbers = page.read().decode()
        changed = moved(stage)
    fence, connector = "fence of cluster primary", f"connector {stage.copies}"
    assert fence not in held
    assert connector not in held
    first = next(line for at, line in checks(seen).items() if at > undone)
    assert f"{fence}: missing ACLs of the fence: 3 of 3" in first
    assert f"{connector}: it is RUNNING" in first
    for subject in (fence, connector):
        assert re.search(rf'^drctl_status_undone{{.*subject="{subject}"}} 1.0$', numbers, re.M)

    assert changed.keys() == {before["subject"], fence, connector}
    assert changed[fence]["evidence"] == (
        f"User:{APP} may write to {stage.topic}; User:{APP} may read {stage.topic};"
        f" User:{APP} may use group {stage.group}"
    )
    assert "Strimzi resumes it" in changed[connector]["remedy"]
