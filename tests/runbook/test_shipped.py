"""The shipped runbooks are valid for every link, and so is every drctl command line in them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from drctl import resources
from drctl.cli.commands import COMMANDS
from drctl.engine.active_cluster import changes
from drctl.model.finding import Finding, Status
from drctl.runbook.building import build
from drctl.runbook.linting import lint
from drctl.runbook.reading import files, load
from drctl.runbook.rendering import render
from drctl.runbook.values import sample
from drctl.steps.questions import asked_of
from drctl.steps.registry import KINDS
from tests.docs.test_command_lines import parse
from tests.runbook.links import LINKS

FOLDER = resources.shipped("runbooks")
FILES = files(FOLDER)
NAMES = {
    *("planned-switchover", "unplanned-failover", "failback", "offsets-only", "migrate-topic"),
    *("move-consumers", "move-producers"),
    *("broker-failure", "all-replicas-down", "connector-recovery", "drill"),
}
CHANGE_NOTHING = {"broker-failure", "all-replicas-down", "connector-recovery", "drill"}
COMING = frozenset({"runbook", "resume"})
"""Commands of this version that may not be registered yet."""


def test_all_runbooks_are_shipped() -> None:
    assert {path.stem for path in FILES} == NAMES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_shipped_runbooks_pass_lint(path: Path) -> None:
    assert lint(path).lines == ()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("link", LINKS)
def test_they_make_a_plan_for_every_link(path: Path, link: str) -> None:
    runbook = load(path)
    given = {n: str(sample(p)) for n, p in runbook.file.parameters.items() if p.default is None}
    assert build(runbook, given, LINKS[link]).steps


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("link", LINKS)
def test_drctl_changes_nothing_in_a_rehearsal_or_where_people_repair(path: Path, link: str) -> None:
    runbook = load(path)
    given = {n: str(sample(p)) for n, p in runbook.file.parameters.items() if p.default is None}
    plan = build(runbook, given, LINKS[link])
    assert changes(plan, KINDS) is (path.stem not in CHANGE_NOTHING)


@pytest.mark.parametrize("link", LINKS)
def test_without_a_fence_its_prechecks_are_not_required(link: str) -> None:
    asked = {}
    for name in ("offsets-only", "planned-switchover"):
        plan = build(load(FOLDER / f"{name}.yaml"), {}, LINKS[link])
        fence = Finding("fence-not-possible", Status.FAIL, "fence of cluster a", "it has none")
        lag = Finding("replication-lag", Status.FAIL, "link main", "it lags")
        asked[name] = [each.check for each in asked_of(plan, [fence, lag])]
    both = ["fence-not-possible", "replication-lag"]
    assert asked == {"offsets-only": ["replication-lag"], "planned-switchover": both}


def command_lines(page: str) -> Iterator[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    for line in "\n".join(blocks).splitlines():
        words = shlex.split(line)
        if words and words[0] == "drctl":
            yield words[1:]
    for code in re.findall(r"`drctl ([^`]+)`", page):
        yield shlex.split(code)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_drctl_command_line_is_valid(path: Path) -> None:
    found = list(command_lines(render(load(path))))
    assert found
    for words in found:
        if words[0] not in COMING - COMMANDS.keys() and words[0] not in ("resume", "runbook"):
            parse(words)


def test_named_kafka_tools_exist() -> None:
    known = {
        *("kafka-acls.sh", "kafka-broker-api-versions.sh", "kafka-configs.sh"),
        *("kafka-consumer-groups.sh", "kafka-leader-election.sh"),
        *("kafka-log-dirs.sh", "kafka-topics.sh"),
    }
    pages = "".join(render(load(path)) for path in FILES)
    assert set(re.findall(r"kafka-[a-z-]+\.sh", pages)) <= known


def test_referenced_pages_exist() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in FILES)
    for name in re.findall(r"`(runbooks/[a-z-]+\.md)`", text):
        assert (FOLDER.parent / name).is_file(), name
    for name in re.findall(r"runbook\s+`([a-z-]+)`", text):
        assert name in NAMES, name
