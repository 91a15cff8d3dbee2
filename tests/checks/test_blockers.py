"""What blocks a failover, and what can be overridden."""

from collections.abc import Sequence

import pytest

from drctl.checks.diagnosis import blockers_among, checked_overrides, overridable
from drctl.checks.registry import CHECKS, PRECHECKS, findings, precheck_findings
from drctl.connectors import applying as positions
from drctl.connectors import recovery_plan as recovery
from drctl.elections import planning as elections
from drctl.model.errors import UsageError
from drctl.model.finding import Finding, Status
from drctl.model.loss import Mode
from drctl.model.plan import parse_overrides
from drctl.reconcile import prechecks as reconciling
from tests.checks.observing import observed

LINK = {"link": {"replicator": {"kind": "mirrormaker2"}}}


def finding_of(check: str, status: Status) -> Finding:
    return Finding(check, status, "cluster a", "it is so")


def names(found: tuple[Finding, ...]) -> set[str]:
    return {finding.check for finding in found}


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("name", PRECHECKS)
def test_failed_prechecks_block_unless_overridden(name: str, mode: Mode) -> None:
    failing = (finding_of(name, Status.FAIL),)
    prechecks = PRECHECKS[name].prechecks
    assert prechecks is not None
    assert blockers_among(failing, {}, mode) == failing
    left = blockers_among(failing, {name: "cause"}, mode)
    assert left == (() if prechecks.overridable else failing)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("name", PRECHECKS)
def test_not_checked_blocks_if_needed(name: str, mode: Mode) -> None:
    prechecks = PRECHECKS[name].prechecks
    assert prechecks is not None
    unknown = (finding_of(name, Status.NOT_CHECKED),)
    assert bool(blockers_among(unknown, {}, mode)) == (mode in prechecks.needed)


@pytest.mark.parametrize("status", [Status.OK, Status.WARN])
def test_ok_and_warn_do_not_block(status: Status) -> None:
    every = tuple(finding_of(name, status) for name in PRECHECKS)
    assert blockers_among(every, {}, Mode.PLANNED) == ()


def test_doctors_checks_never_block_and_unknown_checks_do() -> None:
    advice = next(check.name for check in CHECKS if check.prechecks is None)
    found = (finding_of(advice, Status.FAIL), finding_of("of-a-later-drctl", Status.FAIL))
    assert names(blockers_among(found, {}, Mode.PLANNED)) == {"of-a-later-drctl"}


@pytest.mark.parametrize("mode", Mode)
def test_without_any_observation_everything_is_blocked(mode: Mode) -> None:
    seen = observed({**LINK, "mode": mode.value})
    standing = names(blockers_among(precheck_findings(seen), {}, mode))
    always = {"target-unreachable", "target-under-min-isr", "connect-unreachable"}
    assert standing >= {*always, "journal-not-writable", "connectors-not-configured"}
    every = dict.fromkeys(overridable(), "cause")
    left = names(blockers_among(precheck_findings(seen), every, mode))
    final = {"target-unreachable", "journal-not-writable"}
    assert left == final | ({"source-unreachable"} if mode is Mode.PLANNED else set())


@pytest.mark.parametrize("mode", Mode)
def test_prechecks_are_checks_of_doctor(mode: Mode) -> None:
    seen = observed({**LINK, "mode": mode.value})
    every, prechecks = findings(seen), precheck_findings(seen)
    assert prechecks
    assert set(prechecks) < set(every)
    assert names(prechecks) <= PRECHECKS.keys()


def test_prechecks_run_in_their_modes() -> None:
    before = {
        mode: names(precheck_findings(observed({**LINK, "mode": mode.value}))) for mode in Mode
    }
    assert before[Mode.PLANNED] - before[Mode.UNPLANNED] == {
        "source-unreachable",
        "hanging-transactions",
        "backlog-near-retention",
        "groups-without-coordinator",
        "groups-not-translated",
    }
    assert before[Mode.UNPLANNED] - before[Mode.PLANNED] == {"source-alive"}


def test_override_reasons_are_kept() -> None:
    given = ["source-alive= the rack is burning = yes ", "moves-backwards=they asked for it"]
    assert checked_overrides(given, {"moves-backwards"}) == {
        "source-alive": "the rack is burning = yes",
        "moves-backwards": "they asked for it",
    }


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ("source-alife=x", "--override 'source-alife': no precheck", "did you mean source-alive"),
        ("moves-backwards=x", "--override 'moves-backwards': no precheck", "replication-lag"),
        ("mm2-topics=x", "--override 'mm2-topics': no precheck", "groups-not-translated"),
        ("=x", "--override '': no precheck", "replication-lag"),
        ("source-alive", "needs a reason", '--override source-alive="disk lost'),
        ("source-alive= ", "needs a reason", '--override source-alive="disk lost'),
        ("source-alive=REASON", "needs a reason, not the word REASON", 'source-alive="disk lost'),
        ("journal-not-writable=x", "cannot be overridden", "a run can write its journal"),
    ],
)
def test_prechecks_that_cannot_be_overridden(given: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        checked_overrides([given])
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("known", "typed", "refused"),
    [
        (elections.OVERRIDABLE, "unclean", "has-leader"),
        (positions.OVERRIDABLE, "mismatch", "sink"),
        ([recovery.PRECHECK], "cause", "unclean"),
        (reconciling.OVERRIDABLE, "source-moved", "recreated"),
    ],
)
def test_every_command_parses_overrides_alike(
    known: Sequence[str], typed: str, refused: str
) -> None:
    assert parse_overrides([f"{typed} = I know"], known) == {typed: "I know"}
    for given, words in (
        (typed, f"--override {typed} needs a reason"),
        (f"{typed}= ", f"--override {typed} needs a reason"),
        (f"{typed}=REASON", f"--override {typed} needs a reason, not the word REASON"),
        (f"{refused}=x", f"--override '{refused}': no precheck of that name can be overridden"),
    ):
        with pytest.raises(UsageError, match=words):
            parse_overrides([given], known)
