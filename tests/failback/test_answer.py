"""The answer as JSON and text, and what the command says if it cannot answer."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from drctl.app import network
from drctl.failback.answer import TABLE, Answer, OrderDocument, State, Verdict
from drctl.failback.facts import Facts, JournaledRun
from drctl.failback.suggested_commands import CommandContext, commands_by_step
from drctl.model.topology import Unavailable
from drctl.views.failback import failback_table
from tests.cli.conftest import Run, called
from tests.cli.documents import check
from tests.failback.failback_orders import (
    SILENT,
    after_failback,
    before_incident,
    copying,
    endpoint,
    in_order_to_d,
    in_order_to_e,
    in_order_to_h,
    judged,
)
from tests.links import link

__all__ = ["called"]

BACK = {"connect": "http://back:8083", "connectors": {"source": "mm2-back"}}
FORWARD = {
    "connect": "http://connect:8083",
    "connectors": {"source": "mm2-source", "checkpoint": "mm2-checkpoint"},
}
LINK = link(
    replicator={"kind": "mirrormaker2", **FORWARD, "reverse": BACK},
    fence={"method": "acl", "principals": ["User:orders-app"]},
)


def site(found: Answer, **changed: Any) -> CommandContext:
    return replace(CommandContext(LINK, found.seen, "home"), **changed)


SITE = site(judged(in_order_to_d()))
EVERY = (
    in_order_to_d(),
    in_order_to_h(),
    replace(in_order_to_d(), gaps=()),
    replace(in_order_to_d(), on_source=SILENT, health=SILENT, fence=SILENT),
    replace(in_order_to_d(), forward=copying("mm2-source", "RUNNING")),
)


def drawn(answer: Answer, width: int = 150) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(failback_table(answer, site(answer)))
    return out.getvalue()


@pytest.mark.parametrize("facts", EVERY)
def test_every_answer_matches_its_schema(facts: Facts) -> None:
    document = OrderDocument.of(judged(facts)).to_json()
    check(document)
    assert [step["id"] for step in document["steps"]] == list("abcdefghijk")


def test_steps_have_names_and_descriptions() -> None:
    found = OrderDocument.of(
        judged(in_order_to_d(), forward=copying("mm2-source", "RUNNING"))
    ).to_json()
    (step,) = [each for each in found["steps"] if each["id"] == found["next"]]
    assert step["name"] == found["next_name"] == "forward-replication-stopped"
    assert step["title"] == "Replication primary -> secondary is stopped"
    (wrong,) = [each for each in found["violations"] if each["step"] == "b"]
    assert wrong["name"] == "forward-replication-stopped"
    assert "mm2-source is RUNNING" in wrong["why"]
    names = [each["name"] for each in found["steps"]]
    assert len(set(names)) == len(names)


def test_without_an_incident_there_is_nothing_to_fail_back() -> None:
    found = judged(before_incident())
    check(OrderDocument.of(found).to_json())
    assert (found.verdict, found.next, found.state) == (Verdict.OK, None, State.NOTHING)
    assert OrderDocument.of(found).to_json()["why"] == (
        "every endpoint points to primary; journal: no run has moved clients to secondary;"
        " replication primary -> secondary runs"
    )
    text = drawn(found)
    assert "Verdict: ok: there is nothing to fail back" in text
    assert "Next: nothing\n" in text
    assert "as one plan" not in text


def test_with_unknown_clients_nothing_is_to_be_stopped() -> None:
    blind = replace(before_incident(), endpoints=(), groups=SILENT, on_source=SILENT, fence=SILENT)
    found = judged(blind)
    check(OrderDocument.of(found).to_json())
    assert (found.verdict, found.state) == (Verdict.UNKNOWN, State.UNKNOWN)
    assert OrderDocument.of(found).to_json()["why"] == (
        "cannot tell whether clients have left primary: cluster primary did not answer within 10 s"
    )
    text = drawn(found)
    assert "Verdict: unknown: cannot tell whether clients have left primary" in text
    assert "Next: verify by hand: step i" in text
    assert "do not stop or fence anything yet" in text
    for harm in ("/stop", "kafka-acls", "as one plan"):
        assert harm not in text


def test_a_completed_failback_is_reported() -> None:
    run = JournaledRun("20261122-main", "failback", "done", switched_back=True)
    found = judged(after_failback(), journal=(run,))
    assert OrderDocument.of(found).to_json()["state"] == "completed"
    assert "the failback is complete (run 20261122-main)" in drawn(found)


def test_examples_come_from_the_result() -> None:
    (example,) = OrderDocument.of(judged(in_order_to_d())).to_json()["records"]["examples"]
    assert example == {
        "topic": "orders",
        "partition": 0,
        "offset": 103,
        "timestamp": 1_700_000_000_000,
        "key": "k",
        "order": "safe",
    }


def test_text_has_verdict_steps_unknowns_and_next_actions_in_order() -> None:
    text = drawn(judged(in_order_to_d(), endpoints=()))
    places = [
        text.index(word) for word in ("Verdict: unknown", "State", "\nUnknown", "Next: step e")
    ]
    assert places == sorted(places)
    assert "drctl reconcile gap/main-1 --policy copy" in text
    assert "10 records are not replicated" in text.replace("\n", " ")


def test_a_violation_is_named_with_its_action() -> None:
    text = drawn(judged(in_order_to_d(), forward=copying("mm2-source", "RUNNING")))
    assert "Verdict: violated" in text
    assert "Next: step b (Replication primary -> secondary is stopped)" in text
    assert "curl -s -X PUT http://connect:8083/connectors/mm2-source/stop" in text


def test_unknown_steps_have_an_action() -> None:
    text = drawn(judged(in_order_to_d(), fence=Unavailable("it hung up")))
    assert "Next: verify by hand: step a" in text


def test_reverse_replication_is_not_started_beside_forward_replication() -> None:
    """Topics that keep their names would replicate in an endless loop."""
    runs = judged(in_order_to_e(), forward=copying("mm2-source", "RUNNING"))
    lines = commands_by_step(site(runs))["f"]
    stops = [n for n, line in enumerate(lines) if line.endswith("/connectors/mm2-source/stop")]
    starts = [n for n, line in enumerate(lines) if line.endswith("/connectors/mm2-back/resume")]
    assert stops
    assert stops < starts
    assert not any("stop" in line for line in commands_by_step(SITE)["f"][1:])


def test_the_journal_is_shown() -> None:
    run = JournaledRun(
        "20261122-main", "failover-unplanned", "done", ("fence producers on primary",)
    )
    text = drawn(judged(in_order_to_d(), journal=(run,)))
    assert "20261122-main  failover-unplanned  done" in text
    assert "outstanding: fence producers on primary" in text
    assert judged(in_order_to_d(), journal=(run,)).verdict is Verdict.OK


def test_names_of_clusters_are_escaped_on_the_terminal() -> None:
    text = drawn(judged(in_order_to_d(), fence=Unavailable("[red]\x1b[2J")))
    assert "[red]" in text
    assert "\x1b[2J" not in text


def test_no_fence_is_suggested_where_applications_may_run() -> None:
    for where, words in (
        ((endpoint("primary"),), "endpoints on primary now: file bootstrap"),
        ((), "cannot be checked"),
    ):
        first, deny = commands_by_step(site(judged(in_order_to_d(), endpoints=where)))["a"]
        assert words in first
        assert "--deny-principal" in deny
    assert len(commands_by_step(SITE)["a"]) == 1


def test_each_step_has_its_command() -> None:
    stop = ["stop copier.sh", "main"]
    own = replace(SITE, link=link(replicator={"kind": "none", "stop": stop}))
    assert commands_by_step(own)["b"] == ("'stop copier.sh' main",)
    assert list(commands_by_step(SITE)) == [row.id for row in TABLE]
    without = site(judged(in_order_to_d(), gaps=()), link=link(), back=None)
    assert all(all(lines) and lines for lines in commands_by_step(without).values())
    assert "add a link from secondary to primary" in commands_by_step(without)["h"][0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--policy", "burn"), "unknown policy 'burn'"),
        (("--policy", "discard"), "discard requires --topic"),
        (("--gap", "somewhere"), "--gap requires --check-order"),
        (("--check-order", "--execute"), "--check-order cannot be combined"),
        (("--check-order", "--rebuild"), "--check-order cannot be combined"),
        (("--timeout", "soon"), "soon"),
    ],
)
def test_conflicting_options_are_refused(called: Run, words: tuple[str, ...], message: str) -> None:
    ran = called("failback", *words)
    assert (ran.code, ran.stdout) == (2, "")
    assert message in ran.stderr
    document = check(called("failback", *words, "-o", "json").document())
    assert document["error"]["kind"] == "UsageError"


def test_a_folder_without_a_result_is_refused(called: Run) -> None:
    config = "clusters: {a: {bootstrap: 'x:1'}, b: {bootstrap: 'y:1'}}\n" + (
        "links: {main: {from: a, to: b, topics: [t]}}\n"
    )
    Path("drctl.yaml").write_text(config, encoding="utf-8")
    ran = called("failback", "--check-order", "--gap", "nowhere")
    assert ran.code == 2
    assert "nowhere has no gap.json" in ran.stderr


@pytest.mark.slow
def test_the_users_command_is_asked_if_no_connectors_are_named(
    called: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither cluster is readable, as if authentication failed."""
    monkeypatch.setattr(network, "neither_responds", lambda *_: None)
    replicator = "{kind: none, stop: [x], stopped: [/bin/sh, -c, 'echo it runs; exit 3']}"
    config = "clusters: {a: {bootstrap: '127.0.0.1:1'}, b: {bootstrap: '127.0.0.1:2'}}\n" + (
        f"links: {{main: {{from: a, to: b, topics: [t], replicator: {replicator}}}}}\n"
    )
    Path("drctl.yaml").write_text(config, encoding="utf-8")
    ran = called("failback", "--check-order", "-o", "json")
    # It is unknown where clients are: running replication may be correct.
    assert (ran.code, ran.document()["next"]) == (5, "i")
    assert "it is not stopped (it runs)" in ran.document()["steps"][1]["why"]


def test_a_cause_of_several_unknown_steps_is_reported_once() -> None:
    found = judged(in_order_to_d(), on_source=SILENT, health=SILENT, fence=SILENT)
    first, *_ = OrderDocument.of(found).to_json()["unknown"]
    assert first["why"] == SILENT.reason
    assert {"a", "c", "d"} <= set(first["steps"])
    assert drawn(found).count(SILENT.reason) == 1
