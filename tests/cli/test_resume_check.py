"""Whatever a journal requests beyond this host's configuration is refused and shown."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drctl.app import connect_adapters, run_adapters, run_journal
from drctl.app import repairs as fix_way
from drctl.app.repairs import RepairReader
from drctl.app.resume_check import (
    not_permitted,
    permitted,
    permitted_kinds,
    require_differences,
    require_permitted,
)
from drctl.checks.repairs import Fix, Fixes, LimitChange, SettingChange
from drctl.cli import resume
from drctl.config import loading
from drctl.config.configuration import Config
from drctl.config.link import INSIDE
from drctl.engine import entries
from drctl.engine.kind import Readback, State, Trait
from drctl.engine.run_state import RunState, read_run
from drctl.model.errors import DamagedJournal, Refused
from drctl.model.groups import Committed
from drctl.model.health import BlockingTransaction
from drctl.model.journal import Entry
from drctl.model.loss import Mode
from drctl.model.plan import Plan, Step
from drctl.model.repairs import Acls, TopicSetting, TopicShape
from drctl.model.topology import TopicPartition
from drctl.model.typed_json import to_json
from drctl.offsets.applying import Wanted
from drctl.offsets.results import Change
from drctl.plans.failback import failback, reverse_inputs
from drctl.plans.inputs import FenceMethod, PlanInputs
from drctl.plans.single_step import election_plan, fence_probe_plan
from drctl.runbook.allowlist import allowlist_of
from drctl.runbook.building import build
from drctl.runbook.reading import find
from drctl.steps.apply_offsets import ApplyIntent, ApplyOffsets, ApplySettings, Row
from drctl.steps.records import ReconcileResult, ResultSettings
from drctl.steps.registry import KINDS, REPAIRS
from tests.connectors.plans import LINK, every
from tests.connectors.world import carried_out, notes_of
from tests.depth import some
from tests.elections import test_executing as elections
from tests.engine import repairs
from tests.engine import test_both_sites_interruptions as both_sites
from tests.engine import test_failback_interruptions as failbacks
from tests.engine import test_failback_kinds as kinds
from tests.engine import test_rebuild_interruptions as rebuilds
from tests.engine import test_source_connectors as source_connectors
from tests.engine.crashing import Case, ends, run
from tests.engine.emptied_cluster import cut, wiped
from tests.engine.failovers import (
    ABORTING,
    REVERSED,
    SEEN,
    WITH_SOURCES,
    case,
    hangs,
    nothing_wrong,
    positions_refused,
)
from tests.engine.pair import APP, PRIMARY, SECONDARY, Pair, PersonAction, linked
from tests.engine.processes import MIRROR
from tests.engine.recovered_cluster import recovered_pair
from tests.engine.test_failback_kinds import manual_actions as by_people
from tests.engine.test_interruptions import Countdown
from tests.engine.test_no_writes import ASKED, OF_RUNBOOKS
from tests.engine.test_runbook_interruptions import BOOKS
from tests.engine.test_runbook_interruptions import case as booked
from tests.engine.toggles import Crash, MemoryJournal
from tests.links import link

AT = datetime(2026, 3, 5, 14, 20, tzinfo=UTC)
WHO = {"user": "eve", "host": "elsewhere"}
RUN = "20260305T142000.000000Z"

SITE = """
clusters:
  primary: {bootstrap: "127.0.0.1:1"}
  secondary: {bootstrap: "127.0.0.1:2"}
links:
  main:
    from: primary
    to: secondary
    topics: [orders, audit, payments, invoices]
    replicator:
      kind: mirrormaker2
      connect: http://127.0.0.1:1
      COPIES
      reverse: {connect: "http://127.0.0.1:1", connectors: {source: mm2-back}}
    source_connectors:
      names: [shop]
      from: {connect: "http://127.0.0.1:1"}
      to: {connect: "http://127.0.0.1:2"}
    fence: FENCE
    endpoints:
      - {kind: file, path: bootstrap.txt}
      - kind: dns
        server: 127.0.0.1
        zone: example.org
        record: kafka.example.org
        clusters: {primary: 10.0.0.1, secondary: 10.0.0.2}
commands:
  - [/opt/acme/announce, "*"]
"""
FENCES = {
    FenceMethod.ACL: "{method: acl, principals: [User:app, User:batch]}",
    FenceMethod.COMMAND: (
        "{method: command, command: [./fence, 'on'],"
        " undo: [./fence, 'off'], verify: [./fence, look]}"
    ),
    FenceMethod.NONE: "{method: none}",
}
CONNECTORS = "connectors: {source: mm2}"
MIRRORED = f"""stop: [{MIRROR}, stop]
      start: [{MIRROR}, start]
      stopped: [{MIRROR}, look]"""
"""User-supplied commands that stop and start replication if drctl knows no connectors."""


WITHOUT_TEXT = dict.fromkeys(("what", "before", "after", "why", "note"), "")


@pytest.fixture(name="config")
def _config(tmp_path: Path) -> Config:
    return configured(tmp_path)


def configured(
    folder: Path, method: FenceMethod = FenceMethod.ACL, more: str = "", copies: str = CONNECTORS
) -> Config:
    file = folder / "drctl.yaml"
    file.write_text(SITE.replace("FENCE", FENCES[method]).replace("COPIES", copies) + more)
    return loading.load(file)


def problems(state: RunState, config: Config) -> list[str]:
    return list(not_permitted(state, permitted(config, config.link(), state)))


def plan_of(*steps: Step, **changed: Any) -> Plan:
    return replace(Plan("failover-planned", "main", "primary", "secondary", steps), **changed)


def command(**changed: Any) -> dict[str, Any]:
    settings = {"question": "notify", "argv": [], "verify": [], "undo": [], "env": {}}
    return {**settings, "timeout_seconds": 5, **changed}


def run_state_of(*steps: Step, **intents: Mapping[str, Any]) -> RunState:
    """Return a run with these steps and intents by step id."""
    recorded = [entries.began(RUN, plan_of(*steps), WHO, AT)]
    recorded += [
        entries.intend(step.replace("_", "-"), number, intent, AT)
        for number, (step, intent) in enumerate(intents.items(), 1)
    ]
    return read_run(json.loads(json.dumps(recorded)))


NOBODY = replace(SEEN, principals=())
"""Only the method `acl` uses `principals`."""

BY_COMMAND = replace(
    NOBODY,
    connectors=(),
    stop_command=(MIRROR, "stop"),
    start_command=(MIRROR, "start"),
    stopped_command=(MIRROR, "look"),
)


@dataclass(frozen=True)
class Honest:
    """A run made by drctl itself, and its link's configuration."""

    make: Callable[[], Case]
    method: FenceMethod = FenceMethod.ACL
    copies: str = CONNECTORS


def cooperative_people(pair: Pair) -> None:
    """People do what they are asked to, on either cluster."""

    def wall(name: str, to: bool) -> PersonAction:
        site = pair.sites[name]
        return PersonAction(
            lambda: setattr(site, "fenced_outside", to), lambda: site.fenced_outside is to
        )

    source = pair.source
    stop = PersonAction(lambda: pair.stopped.add(source), lambda: source in pair.stopped)
    pair.manual_actions |= {
        "fence-primary": wall(PRIMARY, True),
        "lift-fence": wall(PRIMARY, False),
        "fence-producers": wall(source, True),
        "stop-consumers": stop,
    }


def reversed_link(method: FenceMethod, seen: PlanInputs) -> Case:
    """Return a link with user-supplied commands or people for what drctl cannot do."""
    # A person lifts the fence: otherwise the command would lift the fences of both clusters.
    old = replace(seen, fence_method=method, replicator="none", principals=(), fence_undo=())
    plan = failback(replace(reverse_inputs(old), policy="copy"))

    def begun() -> Pair:
        pair = recovered_pair()
        pair.manual_actions = by_people(pair, cuts=False)
        return pair

    return Case(plan, begun, cooperative_people)


def by_a_runbook() -> Case:
    """Return steps that no shipped runbook has."""
    steps = tuple(Step(name, name, settings) for name, settings in OF_RUNBOOKS.items())

    def agreeing(pair: Pair) -> None:
        pair.manual_actions = {ASKED["question"]: PersonAction(lambda: None, lambda: True)}

    return Case(Plan("runbook", "main", PRIMARY, SECONDARY, steps), linked, agreeing)


PROBE = fence_probe_plan(
    link(PRIMARY, SECONDARY, fence={"method": "acl", "principals": [APP]}), "AAA", 0
)

LEGITIMATE: dict[str, Honest] = {
    **{
        f"{mode} {method} {wrong.__name__}": Honest(
            lambda mode=mode, method=method, wrong=wrong: case(  # type: ignore[misc]
                mode, method, wrong, SEEN if method is FenceMethod.ACL else NOBODY
            ),
            method,
        )
        for mode in Mode
        for method in FenceMethod
        for wrong in (nothing_wrong, positions_refused)
    },
    "reversed": Honest(lambda: case(Mode.PLANNED, seen=REVERSED)),
    "stopped by a command": Honest(
        lambda: case(Mode.PLANNED, FenceMethod.COMMAND, seen=BY_COMMAND),
        FenceMethod.COMMAND,
        MIRRORED,
    ),
    "hanging transactions": Honest(lambda: case(Mode.PLANNED, prepare=hangs, seen=ABORTING)),
    "with source connectors": Honest(lambda: case(Mode.PLANNED, seen=WITH_SOURCES)),
    "failback with source connectors": Honest(source_connectors.failback_case),
    "failback": Honest(lambda: failbacks.case(failbacks.nothing_wrong)),
    "failback that rolls back": Honest(lambda: failbacks.case(failbacks.positions_refused)),
    **{
        f"failback of {kinds.kind_name(kind)}": Honest(lambda kind=kind: kinds.case(kind))  # type: ignore[misc]
        for kind in kinds.KINDS
    },
    "failback by command": Honest(
        lambda: reversed_link(FenceMethod.COMMAND, BY_COMMAND), FenceMethod.COMMAND, MIRRORED
    ),
    "failback by people": Honest(
        lambda: reversed_link(FenceMethod.NONE, replace(NOBODY, connectors=())), FenceMethod.NONE
    ),
    "failback between two sites": Honest(lambda: both_sites.case(both_sites.nothing_wrong)),
    "failback between two sites by people": Honest(lambda: both_sites.BY_PEOPLE),
    "rebuild": Honest(lambda: rebuilds.case(rebuilds.nothing_wrong, wiped)),
    "rebuild of a part": Honest(lambda: rebuilds.case(rebuilds.nothing_wrong, cut)),
    **{f"runbook {name}": Honest(lambda name=name: booked(name)) for name in BOOKS},  # type: ignore[misc]
    "probe of the fence": Honest(lambda: Case(PROBE, linked, nothing_wrong)),
    "other steps of runbooks": Honest(by_a_runbook, FenceMethod.COMMAND),
}


@pytest.mark.parametrize("name", LEGITIMATE)
def test_a_run_of_the_same_configuration_may_continue(name: str, tmp_path: Path) -> None:
    honest = LEGITIMATE[name]
    config, given = configured(tmp_path, honest.method, copies=honest.copies), honest.make()
    places = ends(given)
    for place in (*some(places[:: max(1, len(places) // 5)]), None):
        ran = run(given) if place is None else run(given, place)
        state = read_run(ran.ledger.entries)
        assert problems(state, config) == []


def test_every_step_kind_may_continue() -> None:
    """Each with an intent of its own: a new kind needs a case."""
    listed = [*repairs.plan().steps, *elected("primary").steps, applied("orders"), RECONCILED]
    listed += [step for given, _ in every("secondary") for step in given.steps]
    made = {step.kind for step in listed}
    for honest in LEGITIMATE.values():
        given = honest.make()
        if made >= {step.kind for step in given.plan.steps}:
            continue
        state = read_run(run(given).ledger.entries)
        made |= {state.plan.step(effect.step).kind for effect in state.effects}
    assert set(KINDS) - made == set()


RECONCILED = ReconcileResult().step(
    "reconcile-result",
    ResultSettings(
        folder="tail", result="g1", policy="copy", topics=(), conflicting="refuse", target=SECONDARY
    ),
)
"""The plan of `drctl reconcile`."""


@pytest.mark.parametrize(
    ("target", "words"), [(SECONDARY, ""), ("third", "'third' is not a cluster")]
)
def test_reconcile_continues_on_its_own_target(target: str, words: str, config: Config) -> None:
    settings = {**RECONCILED.settings, "target": target}
    step = replace(RECONCILED, settings=settings)
    state = run_state_of(step, **{step.id: {**settings, "due": 1, "before": 0}})
    found = problems(state, config)
    assert (words in str(found)) if words else found == []


def elected(cluster: str) -> Plan:
    """Return the run of `drctl elect`."""
    return election_plan(
        replace(elections.planned(elections.BEHIND), cluster=cluster), f"{INSIDE}{cluster}"
    )


@pytest.mark.parametrize(
    ("cluster", "words"),
    [("primary", ""), ("secondary", "'secondary' is not a cluster of the link")],
)
def test_elections_continue_on_their_own_cluster(config: Config, cluster: str, words: str) -> None:
    link = config.inside("primary")
    run = elections.Run(elections.Cluster(), elections.planned(elections.BEHIND))
    with pytest.raises(Crash):
        run.go(elections.crash_at("before the election"))
    recorded = json.loads(json.dumps(run.notes.entries).replace('"main"', f'"{cluster}"'))
    recorded[0]["plan"]["link"] = link.name
    state = read_run(recorded)
    found = list(not_permitted(state, permitted(config, link, state)))
    assert bool(found) == bool(words)
    assert all(words in each for each in found)


def applied(topic: str) -> Step:
    """Return the run of `drctl offsets apply`."""
    row = Row(Wanted("app", TopicPartition(topic, 0), Committed(5)), None)
    return ApplyOffsets().step("apply-offsets", ApplySettings("secondary", (row,)))


@pytest.mark.parametrize(
    ("topic", "words"), [("orders", ""), ("secret", "topic 'secret' does not belong to the link")]
)
def test_offsets_continue_within_the_topics_of_the_link(
    config: Config, topic: str, words: str
) -> None:
    """Also before the offsets are in the journal: a resumed run derives them from the settings."""
    step = applied(topic)
    intent = ApplyIntent("secondary", (Change("app", topic, 0, None, Committed(5)),))
    for state in (run_state_of(step), run_state_of(step, apply_offsets=to_json(intent))):
        found = problems(state, config)
        assert bool(found) == bool(words)
        assert all(words in each for each in found)


def test_connector_runs_continue_on_the_same_workers(config: Config) -> None:
    link = connect_adapters.link_named(config, LINK)
    assert (link.name, link.target) == (LINK, "secondary"), (
        "the journal belongs to the link of these workers"
    )
    for given, workers in every(link.target):
        notes = notes_of(workers)
        carried_out(workers, given, notes)
        state = read_run(json.loads(json.dumps(notes.entries)))
        assert list(not_permitted(state, permitted(config, link, state))) == []
        if not any(step.kind == "save-source-positions" for step in given.steps):
            assert list(not_permitted(state, permitted(config, config.link(), state)))


EVIL = ["/bin/sh", "-c", "id"]
COMMIT = {"overrides": {}, "leave_out": True}
FORGED: dict[str, tuple[str, dict[str, Any]]] = {
    "argv": ("command", command(argv=EVIL)),
    "verify": ("command", command(argv=["/opt/acme/announce", "x"], verify=EVIL)),
    "undo": ("command", command(argv=["/opt/acme/announce", "x"], undo=EVIL)),
    "option": ("command", command(argv=["/opt/acme/announce", "--x"])),
    "no command": ("command", command()),
    "environment": (
        "command",
        command(argv=["/opt/acme/announce", "x"], env={"LD_PRELOAD": "/tmp/x.so"}),
    ),
    "secret": (
        "command",
        command(argv=["/opt/acme/announce", "x"], env={"X": "${file:/etc/shadow}"}),
    ),
    "fence": (
        "command-fence",
        {**command(argv=EVIL), "cluster": "primary", "stabilize_seconds": 1},
    ),
    "stop": ("command-stop-replication", command(argv=EVIL)),
    "argv of odd type": ("command", command(argv="id")),
    "cluster": ("commit-offsets", {**COMMIT, "link": "main", "cluster": "prod"}),
    "link": ("commit-offsets", {**COMMIT, "link": "other", "cluster": "secondary"}),
    "clusters": ("snapshot-state", {"clusters": ["primary", "prod"], "connectors": []}),
    "principal": (
        "fence-producers",
        {
            "link": "main",
            "cluster": "primary",
            "principals": ["User:broker"],
            "stabilize_seconds": 1,
        },
    ),
    "connector": ("stop-replication", {"connectors": ["payroll"]}),
    "seeded connector": (
        "set-start-offsets",
        {"connector": "payroll", "source": "secondary", "target": "primary"},
    ),
    "endpoint": ("switch-endpoint", {"number": 2, "kind": "file", "to": "secondary"}),
    "endpoint before": ("switch-endpoint", {"number": -1, "kind": "file", "to": "secondary"}),
    "endpoint of another kind": (
        "switch-endpoint",
        {"number": 0, "kind": "command", "to": "secondary"},
    ),
    "where to": ("switch-endpoint", {"number": 0, "kind": "file", "to": "evil"}),
    "rule": (
        "add-acls",
        {"cluster": "secondary", "changes": [{"acl": ["payroll", "LITERAL", "U", "*", "R", "A"]}]},
    ),
    "topic": (
        "configure-topics",
        {"cluster": "secondary", "changes": [{"topic": "payroll", "key": "k", "to": "1"}]},
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_step_outside_the_configuration_is_refused(name: str, config: Config) -> None:
    kind, settings = FORGED[name]
    state = run_state_of(Step("notify", kind, settings))
    assert [each for each in problems(state, config) if each.startswith("step notify: ")]
    with pytest.raises(Refused, match="step notify: ") as refused:
        require_permitted(config, config.link(), state)
    assert f"`drctl resume {RUN} --abandon REASON`" in refused.value.hint


FINE = Step("notify", "command", command(argv=["/opt/acme/announce", "x"]))
STOP = Step("stop", "stop-replication", {"connectors": ["mm2"]})
FENCE = Step(
    "fence",
    "fence-producers",
    {"link": "main", "cluster": "primary", "principals": ["User:app"], "stabilize_seconds": 1},
)
OFFSETS = Step(
    "offsets",
    "commit-offsets",
    {"link": "main", "cluster": "secondary", "overrides": {}, "leave_out": True},
)
OPEN = Step(
    "opening",
    "enable-writes",
    {"link": "main", "cluster": "secondary", "principals": ["User:app"], "source": "primary"},
)
SEED = Step(
    "seed",
    "set-start-offsets",
    {"connector": "mm2-back", "source": "secondary", "target": "primary"},
)
FILTER = Step("filter", "exclude-reconciled-records", {"connector": "mm2-back"})
ASK = Step(
    "ask", "manual-start-replication", {"question": "ask", "text": "start it", "undo": "stop it"}
)


def rules(*rule: str) -> dict[str, Any]:
    added = [list(rule)]
    found = {"cluster": "primary", "link": "main", "topics": ["orders"], "kept": []}
    return {**found, "rules": added, "added": added, "stabilize_seconds": 1}


def moved(group: str, topic: str) -> dict[str, Any]:
    return {"cluster": "secondary", "lines": [[group, topic, 0, None, [7, None, ""]]]}


ABORT = Step("abort", "abort-transactions", {"cluster": "primary", "reason": "x"})

INTENTS: dict[str, tuple[Step, dict[str, Any]]] = {
    "a transaction of another topic": (
        ABORT,
        {
            **{"cluster": "primary", "at_ms": 0},
            "transactions": [to_json(BlockingTransaction("payroll", 0, 7, 0, 5, 5, "x", None))],
        },
    ),
    "another command than its step": (FINE, command(identity="1", already=False, argv=EVIL)),
    "another one of the site": (
        FINE,
        command(identity="1", already=False, argv=["/opt/acme/announce", "y"]),
    ),
    "a look of its own": (
        FINE,
        command(identity="1", already=False, argv=["/opt/acme/announce", "x"], verify=EVIL),
    ),
    "an environment": (
        FINE,
        command(identity="1", already=False, argv=["/opt/acme/announce", "x"], env={"A": "b"}),
    ),
    "a connector": (STOP, {"before": {"payroll": "RUNNING"}}),
    "a rule that allows": (FENCE, rules("orders", "LITERAL", "User:app", "*", "WRITE", "ALLOW")),
    "another topic": (FENCE, rules("payroll", "LITERAL", "User:app", "*", "WRITE", "DENY")),
    "another principal": (FENCE, rules("orders", "LITERAL", "User:bob", "*", "WRITE", "DENY")),
    "another operation": (FENCE, rules("orders", "LITERAL", "User:app", "*", "ALTER", "DENY")),
    "a group's other topic": (OFFSETS, moved("app", "payroll")),
    "another cluster": (OFFSETS, {"cluster": "prod", "lines": []}),
    "a rule lifted elsewhere": (
        OPEN,
        {
            "cluster": "secondary",
            "topics": [],
            "lifted": [["payroll", "LITERAL", "User:app", "*", "WRITE", "DENY"]],
            "acls_unavailable": "",
            "text": "x",
        },
    ),
    "offsets of another topic": (
        SEED,
        {"connector": "mm2-back", "alias": "a", "wanted": [["payroll", 0, 5]], "before": []},
    ),
    "a class for Connect": (
        FILTER,
        {"connector": "mm2-back", "changes": {"producer.override.bootstrap.servers": "evil:1"}},
    ),
    "another filter": (
        FILTER,
        {"connector": "mm2-back", "changes": {"transforms.drctlCopies.type": "evil.Class"}},
    ),
    "a file outside its folder": (
        ASK,
        {"question": "/../../../x", "text": "start it", "undo": "", "from": [["orders", 0, 1]]},
    ),
    "nothing that it needs": (OPEN, {}),
    "odd types": (STOP, {"before": 5}),
}


@pytest.mark.parametrize("name", INTENTS)
def test_an_intent_outside_the_configuration_is_refused(name: str, config: Config) -> None:
    step, intent = INTENTS[name]
    assert problems(run_state_of(step), config) == []
    found = problems(run_state_of(step, **{step.id: intent}), config)
    assert [each for each in found if each.startswith(f"the intent of step {step.id}: ")]


def test_another_link(config: Config) -> None:
    recorded = [entries.began(RUN, plan_of(FINE, link="other"), WHO, AT)]
    assert problems(read_run(recorded), config) == ["the plan belongs to link 'other'"]


def test_names_in_a_runbook_are_allowed_if_this_machine_has_the_same_runbook(
    tmp_path: Path,
) -> None:
    books = tmp_path / "books"
    books.mkdir()
    (books / "tell.yaml").write_text(
        "name: tell\nabout: Tells somebody.\n"
        "parameters:\n  whom: {type: string, about: Who is told.}\n"
        "steps:\n  - id: fence\n    step: fence-producers\n    with: {principals: ['User:own']}\n"
        "  - id: tell\n    command: {argv: [/opt/acme/announce, x],"
        " env: {WHOM: 'to ${whom}', TOKEN: '${env:TOKEN}'}}\n"
    )
    config = configured(tmp_path, more="runbooks: books\n")
    same = {"runbook tell": find("tell", config.runbooks).fingerprint}
    env = {"WHOM": "to ada", "TOKEN": "${env:TOKEN}"}
    tell = Step("tell", "command", command(argv=["/opt/acme/announce", "x"], env=env))
    own = replace(FENCE, settings={**FENCE.settings, "principals": ["User:own"]})

    def found(step: Step, basis: Mapping[str, str]) -> list[str]:
        plan = plan_of(step, name="tell", basis=basis)
        return problems(read_run([entries.began(RUN, plan, WHO, AT)]), config)

    assert found(tell, same) == []
    assert found(own, same) == []
    for step in (tell, own):
        assert len(found(step, {"runbook tell": "another"})) == 1
        assert len(found(step, {})) == 1
    for forged in (
        {**env, "LD_PRELOAD": "/tmp/x.so"},
        {**env, "WHOM": "to ${file:/etc/shadow}"},
        {**env, "TOKEN": "${file:/etc/shadow}"},
    ):
        settings = {**tell.settings, "env": forged}
        assert len(found(replace(tell, settings=settings), same)) == 1, forged


def test_runbook_parameters_cover_principals_and_connectors(tmp_path: Path) -> None:
    books = tmp_path / "books"
    books.mkdir()
    (books / "stop.yaml").write_text(
        "name: stop\nabout: Stops something.\nparameters:\n"
        "  who: {type: string, about: Who writes.}\n"
        "  which: {type: list, about: What copies.}\n"
        "steps:\n  - id: look\n    step: preflight\n  - id: stock\n    step: snapshot-state\n"
        "  - id: fence\n    step: fence-producers\n    with: {principals: ['User:${who}']}\n"
        "  - id: drain\n    step: drain\n"
        "  - id: stop\n    step: stop-replication\n    with: {connectors: '${which}'}\n"
    )
    config = configured(tmp_path, more="runbooks: books\n")
    given = {"who": "own", "which": "mm2-orders,mm2-audit"}
    plan = build(find("stop", config.runbooks), given, SEEN, allowlist_of(config))
    assert problems(read_run([entries.began(RUN, plan, WHO, AT)]), config) == []
    forged = replace(FENCE, settings={**FENCE.settings, "principals": ["Group:own"]})
    state = read_run([entries.began(RUN, replace(plan, steps=(forged,)), WHO, AT)])
    assert len(problems(state, config)) == 1
    elsewhere = replace(plan, basis={"runbook stop": "another"})
    assert len(problems(read_run([entries.began(RUN, elsewhere, WHO, AT)]), config)) == 3


def test_a_signed_journal_may_name_more_than_the_configuration(tmp_path: Path) -> None:
    config = configured(tmp_path, more="journal: {key: '0123456789abcdef'}\n")
    env = Step("tell", "command", command(argv=["/opt/acme/announce", "x"], env={"A": "b"}))
    own = replace(FENCE, settings={**FENCE.settings, "principals": ["User:own"]})
    assert problems(run_state_of(env, own), config) == []
    evil = Step("evil", "command", command(argv=EVIL))
    assert len(problems(run_state_of(evil), config)) == 1, (
        "only this host's configuration allows commands"
    )
    assert (
        permitted_kinds(run_state_of(env), permitted(config, config.link(), run_state_of(env)))
        is KINDS
    )


def test_facts_of_an_unsigned_journal_are_not_used_for_rollback(config: Config) -> None:
    switch = Step("switch", "switch-endpoint", {"number": 1, "kind": "dns", "to": "secondary"})

    def left_to_people(*records: str) -> frozenset[str]:
        before = {
            "endpoint": "x",
            "cluster": "primary",
            "message": "",
            "evidence": {"records": list(records), "ttl": 5},
            "unfinished": [],
            "cached_seconds": 0,
        }
        state = run_state_of(switch, switch={"number": 1, "to": "secondary", "before": before})
        held = permitted_kinds(state, permitted(config, config.link(), state))
        return frozenset(name for name, kind in held.items() if kind is not KINDS[name])

    left = frozenset({"add-acls", "set-quotas", "configure-topics"})
    assert left_to_people("10.0.0.1") == left
    assert left_to_people("10.6.6.6") == left | {"switch-endpoint"}
    stays = permitted_kinds(
        run_state_of(FINE), permitted(config, config.link(), run_state_of(FINE))
    )
    assert Trait.IRREVERSIBLE in stays["configure-topics"].traits
    assert not stays["configure-topics"].undo({"cluster": "b", "changes": []}, cast(Any, None))


def test_a_repair_is_compared_with_the_differences_whatever_its_plan_name(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = {"topic": "orders", "key": "retention.ms", "to": "1", "from": "5"}
    rule = {"acl": ["orders", "LITERAL", "User:eve", "*", "READ", "ALLOW"]}
    wanted = SettingChange("orders", "retention.ms", "5", "9")
    fixes = Fixes(settings=(Fix("what", "5", "9", "why", wanted),))
    reader = RepairReader(config, config.link(), cast(Any, None), cast(Any, None))
    shape = TopicShape(1, 1, {"retention.ms": TopicSetting("5", own=True)})
    limit = LimitChange((("user", "eve"),), "x", None, 9.0)
    fixes = replace(fixes, quotas=(Fix("what", "missing", "9", "why", limit),))
    monkeypatch.setattr(fix_way, "look_at", lambda _: fix_way.Differences(cast(Any, None), fixes))
    look = SimpleNamespace(
        acls=lambda: Acls(enforced=True),
        shapes=lambda _: {"orders": shape},
        quotas=lambda: {(("user", "eve"),): {"y": 2.0}},
    )
    monkeypatch.setattr(RepairReader, "acls", lambda *_: look)
    monkeypatch.setattr(RepairReader, "quotas", lambda *_: look)
    monkeypatch.setattr(RepairReader, "shapes", lambda *_: look)

    def held(kind: str, difference: Mapping[str, Any], reader: Any = reader) -> None:
        state = run_state_of(
            Step("fix", kind, {"cluster": "secondary", "changes": [{**WITHOUT_TEXT, **difference}]})
        )
        assert problems(state, config) == []
        require_differences(state, permitted(config, config.link(), state), reader)

    held("configure-topics", {**change, "to": "9"})
    held("configure-topics", {**change, "to": "5"})
    quota = {"entity": [["user", "eve"]], "key": "x", "to": 9.0}
    held("set-quotas", quota)
    held("set-quotas", {**quota, "key": "y", "to": 2.0})
    quota["to"] = 10.0
    for kind, difference in (
        ("configure-topics", change),
        ("add-acls", rule),
        ("set-quotas", quota),
    ):
        with pytest.raises(Refused, match="changes that are not needed"):
            held(kind, difference)
        with pytest.raises(Refused, match="steps that only doctor-fix may have"):
            held(kind, difference, None)
    odd = {"cluster": "secondary", "changes": [{**WITHOUT_TEXT, "topic": "orders"}]}
    (wrong,) = problems(run_state_of(Step("fix", "configure-topics", odd)), config)
    assert "not in the format that drctl writes" in wrong
    assert "changes.0.key is missing" in wrong


@pytest.mark.parametrize("declined", ["", "invoices", "remove"])
def test_a_repair_may_continue_wherever_it_was_interrupted(
    declined: str, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = config.link()

    def resume_check(world: repairs.Lagging, recorded: Sequence[Entry]) -> None:
        left = set(world.differences())
        each = (
            tuple(fix for fix in fixes if fix.what in left)
            for fixes in (
                repairs.FIXES.rules,
                repairs.FIXES.quotas,
                repairs.FIXES.settings,
                repairs.FIXES.partitions,
                repairs.FIXES.topics,
            )
        )
        looked = fix_way.Differences(cast(Any, None), Fixes(*each))  # type: ignore[arg-type]
        monkeypatch.setattr(fix_way, "look_at", lambda _: looked)
        monkeypatch.setattr(RepairReader, "acls", lambda _, name: world.acls(name))
        monkeypatch.setattr(RepairReader, "shapes", lambda _, name: world.shapes(name))
        monkeypatch.setattr(RepairReader, "quotas", lambda _, name: world.quotas(name))
        state = read_run(json.loads(json.dumps(recorded)))
        assert problems(state, config) == []
        reader = RepairReader(config, link, cast(Any, None), cast(Any, None))
        require_differences(state, permitted(config, link, state), reader)

    for number in count():
        world = repairs.Lagging(fall=Countdown(number), declines={declined})
        notes = MemoryJournal(world)
        try:
            repairs.execution(world, notes).start(repairs.plan(), WHO)
        except Crash:
            world.fall = lambda point: None
            if notes.entries:
                resume_check(world, notes.entries)
        else:
            break
    assert number > 30


def test_every_kind_that_writes_is_covered() -> None:
    """All requests use the writer: a new kind is checked like all others."""
    sent = {name for name, kind in KINDS.items() if Trait.CHANGES in kind.traits}
    assert REPAIRS - {"final-precheck"} <= sent
    assert {"command", "switch-endpoint", "enable-writes", "commit-offsets"} <= sent


class InMemory:
    """A journal of one run, readable and writable."""

    def __init__(self, recorded: Sequence[Entry]) -> None:
        self.recorded = [json.loads(json.dumps(each)) for each in recorded]
        self.run, self.where = RUN, "a list"

    def runs(self) -> Sequence[str]:
        return (RUN,)

    def entries(self, run: str) -> Sequence[Entry]:
        return self.recorded

    def append(self, added: Sequence[Entry]) -> None:
        self.recorded += added

    def must_be_signed(self, run: str) -> None:
        """Do nothing: there is no key."""

    def is_abandoned(self, run: str) -> bool:
        return False

    def check(self) -> None:
        """Do nothing: no other run exists."""


@pytest.fixture(name="resumed")
def _resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    configured(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(resume, "configuration", lambda: loading.load(Path("drctl.yaml")))

    def go(
        recorded: Sequence[Entry], abandon: str | None = None, then: Sequence[Entry] = ()
    ) -> int:
        journal, locked = InMemory(recorded), InMemory(then or recorded)

        @contextmanager
        def resume_in_memory(*_: Any) -> Iterator[tuple[InMemory, Sequence[Entry]]]:
            yield locked, locked.recorded

        monkeypatch.setattr(run_adapters, "journal_reader", lambda *_: journal)
        monkeypatch.setattr(run_journal, "resumed", resume_in_memory)
        return resume.resume(execute=True, yes=True, abandon=abandon)

    return go


def forged(*argvs: Sequence[str], **changed: Any) -> list[Entry]:
    """Return a run whose prechecks look done and whose next step runs a command."""
    argv, verify = argvs
    settings = command(argv=list(argv), verify=list(verify), **changed)
    steps = (
        Step("preflight", "preflight", {"mode": "planned", "overrides": {}}),
        Step("stock", "snapshot-state", {"clusters": ["primary", "secondary"], "connectors": []}),
        Step("notify", "command", settings, 0.1),
    )
    done = Readback(State.DONE, "done", {"silent": [], "active_groups": {}})
    looked: dict[str, Any] = {"clusters": {}, "connectors": {}}
    return [
        entries.began(RUN, plan_of(*steps), WHO, AT),
        entries.intend("preflight", 1, {"mode": "planned", "overrides": {}}, AT),
        entries.done("preflight", 1, done, AT),
        entries.intend("stock", 2, looked, AT),
        entries.done("stock", 2, done, AT),
        entries.intend("notify", 3, {**settings, "identity": "1", "already": False}, AT),
    ]


def test_no_command_of_a_forged_run_is_started(resumed: Callable[..., int], tmp_path: Path) -> None:
    mark = tmp_path / "was-here"
    with pytest.raises(Refused, match="was-here"):
        resumed(forged(["/bin/true"], ["touch", str(mark)]))
    assert not mark.exists()


def test_a_run_that_changes_before_it_is_resumed_is_checked_again(
    resumed: Callable[..., int], tmp_path: Path
) -> None:
    mark = tmp_path / "was-here"
    changed = forged(["/bin/true"], ["touch", str(mark)])
    with pytest.raises(Refused, match="was-here"):
        resumed(forged(["/opt/acme/announce", "x"], []), then=changed)
    assert not mark.exists()


@pytest.mark.usefixtures("capsys")
def test_a_forged_run_is_skipped(resumed: Callable[..., int], tmp_path: Path) -> None:
    recorded = forged(["/bin/true"], ["touch", str(tmp_path / "was-here")])
    recorded[0] = {
        **recorded[0],
        "plan": {**recorded[0]["plan"], "source": "elsewhere", "link": "other"},
    }
    with pytest.raises(Refused, match="elsewhere"):
        resumed(recorded)
    assert resumed(recorded, "another producer wrote it") == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda first: first["plan"].update(steps=[5]),
        lambda first: first["plan"].update(steps=None),
        lambda first: first["plan"]["steps"][2].update(settings=[]),
        lambda first: first["plan"]["steps"][2].update(settings={}),
        lambda first: first["plan"]["steps"][2].update(id=["notify"]),
        lambda first: first["plan"]["steps"][2].update(id="stock"),
        lambda first: first["plan"].update(overrides=[]),
        lambda first: first.update(plan=None),
        lambda first: first.update(who=7),
    ],
)
def test_a_run_that_drctl_did_not_write_is_damaged(
    change: Callable[[Any], None], resumed: Callable[..., int]
) -> None:
    recorded = json.loads(json.dumps(forged(["/bin/true"], [])))
    change(recorded[0])
    with pytest.raises(DamagedJournal, match=RUN):
        resumed(recorded)


@pytest.mark.parametrize(
    "entry",
    [
        entries.intend("nobody", 4, {}, AT),
        {**entries.intend("notify", 4, {}, AT), "intent": [1]},
        {**entries.done("notify", 0, Readback(State.DONE, ""), AT)},
        {**entries.done("stock", 3, Readback(State.DONE, ""), AT)},
        {**entries.done("notify", 3, Readback(State.DONE, ""), AT), "facts": 3},
        entries.outstanding("nobody", "x", AT),
        {**entries.resumed(WHO, AT), "overrides": 5},
    ],
)
def test_an_entry_that_drctl_did_not_write_damages_the_run(entry: Entry) -> None:
    with pytest.raises(DamagedJournal):
        read_run([*forged(["/bin/true"], []), entry])
