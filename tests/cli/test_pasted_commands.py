"""Suggested commands with hostile names, executed by a real shell.

bash runs each one with `curl`, `drctl` and Kafka's tools replaced by a program that records its
arguments; the test fails if a name does not arrive unchanged.
"""

import ast
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import pytest

import drctl
from drctl.checks.acls import writers
from drctl.checks.observed import Observed
from drctl.checks.repair_plan import quotas_to_set, users_left
from drctl.checks.repairs import ObservedTopics
from drctl.config.schema import ConnectorsConfig
from drctl.failback.blockers import OtherLink, other_links
from drctl.failback.facts import Cluster
from drctl.failback.suggested_commands import commands_by_step
from drctl.model.repairs import Acl
from drctl.model.replication import Connector
from drctl.model.text import (
    abort_hanging,
    add_acl,
    arguments,
    command,
    connector_url,
    describe_producers,
    find_hanging,
    option,
    put,
    quote,
    remove_acl,
)
from drctl.model.topology import OffsetRange, TopicPartition
from drctl.runbook.rendering import by_hand
from drctl.views.run_lines import next_steps
from tests.checks.observing import observed
from tests.checks.precheck_cases import acls
from tests.failback.test_answer import SITE
from tests.report import runs

CANARY = "/tmp/drctl-canary-of-pasted-commands"
HOSTILE = (
    f"x; touch {CANARY}",
    f"$(touch {CANARY})",
    f"`touch {CANARY}`",
    f"a' ; touch {CANARY} ; '",
    f'b" ; touch {CANARY} ; "',
    f"c\ntouch {CANARY}\n",
    f"d | touch {CANARY} & > {CANARY} #",
    "--execute",
    "-rf",
    "ä ö/ü?&=#%20+",
    "\x1b[2J\u202e\x00".rstrip("\x00"),
    "back\\slash \\' \\x41",
    "~root/*?[a]{b,c}!$HOME",
    "a=b c",
    "$'\\x41'",
)
TOOLS = (
    *("curl", "drctl", "chmod", "tool"),
    *("kafka-acls.sh", "kafka-configs.sh", "kafka-topics.sh", "kafka-transactions.sh"),
)

SHELL = """
tell() { printf '%s\\0' "$@"; }
""" + "".join(f'{tool}() {{ tell {tool} "$@"; }}\n' for tool in TOOLS)


def words_of(line: str) -> list[str]:
    """Return the words of a line in a shell; it must be a single command."""
    ended = subprocess.run(
        [
            "bash",
            "--norc",
            "-u",
            "-c",
            f"{SHELL}\nCONNECT=http://connect:8083 SOURCE=s TARGET=t PRIMARY=p B=b\n{line}\n",
        ],
        capture_output=True,
        timeout=20,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "HOME": "/nowhere"},
    )
    assert not Path(CANARY).exists(), f"a name was run: {line}"
    assert not ended.stderr, (line, ended.stderr)
    return ended.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]


every = pytest.mark.parametrize("name", HOSTILE)


@every
def test_a_word_is_passed_unchanged(name: str) -> None:
    assert words_of(f"tool {quote(name)}") == ["tool", name]
    assert words_of(f"tool {command([name, name])}") == ["tool", name, name]
    assert words_of(f"tool {arguments(name)}")[-1] == name
    assert quote(name).isprintable()
    (*_, word) = words_of(f"tool {option('--name', name)}")
    assert word in (name, f"--name={name}")


@every
def test_a_url_segment_is_passed_unchanged(name: str) -> None:
    url = words_of(put("", name, "stop"))[-1]
    assert url.startswith("http://connect:8083/connectors/")
    assert unquote(url.split("/")[-2]) == name
    assert re.fullmatch(r"[\w.~%-]+", url.split("/")[-2], re.ASCII)
    worker = "https://u:p&q@host:8083/a path;x"
    (_, word) = words_of(f"tool {connector_url(worker, name, 'offsets')}")
    assert word == f"{worker}/connectors/{url.split('/')[-2]}/offsets"


@every
def test_next_steps_of_a_run(name: str) -> None:
    ends = (name, f"other {name}")
    plan = runs.planned(link=name, ends=ends, connectors=(name,), overrides={"lag": name})
    for play in (
        runs.GOOD,
        {**runs.GOOD, "verify-clients": runs.Part(name, end=runs.State.FAILED)},
    ):
        for step in next_steps(runs.Run(plan).play(play).data):
            if step.command:
                words = words_of(step.command)
                assert words[0] == "drctl"
                if "resume" not in words:
                    assert name in words or f"--link={name}" in words


@every
def test_principals_that_write_to_drctl_topics(name: str) -> None:
    rules = [f"ALLOW User:x ALL PREFIXED:{topic} *" for topic in ("__drctl_", "led")]
    case = {
        "link": {"from": "source", "to": "target"},
        "acls": False,
        "survey": {
            "principals": {"target": "User:drctl"},
            "ledger": {"cluster": "target", "topic": "ledger"},
        },
    }
    seen = observed(case)
    known = acls(rules)
    hostile = tuple(rule._replace(principal=name) for rule in known.rules)
    (found, _) = writers.findings(replace(seen, target_acls=replace(known, rules=hostile)))
    for line in found.remedy.split("; kafka-acls.sh "):
        words = words_of(line if line.startswith("kafka") else f"kafka-acls.sh {line}")
        assert name in words or f"--deny-principal={name}" in words
        assert words[1:3] == ["--bootstrap-server", "t"]
        assert {"--topic", "Write", "Delete", "Alter", "AlterConfigs"} <= set(words)


class Anything:
    """Has every attribute."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


@every
def test_users_and_quotas(name: str) -> None:
    entity = (("user", name), ("client-id", None))
    ours = Anything(scram_users=frozenset({name}), quotas={entity: {}})
    theirs = Anything(scram_users=frozenset(), quotas={entity: {"request_percentage": 1.0}})
    seen = Anything(
        survey=Anything(source=ours, target=theirs), link=Anything(source="a", target="b")
    )
    seen_as = cast(Observed, seen)
    left = [*users_left(seen_as), *quotas_to_set(seen_as, ObservedTopics({}, {}, frozenset())).left]
    assert len(left) == 2
    for each in left:
        (line,) = (value for value in vars_of(each) if "kafka-configs.sh" in value)
        words = words_of(line[line.index("kafka-configs.sh") :])
        assert name in words or f"--entity-name={name}" in words


def vars_of(value: Any) -> Iterator[str]:
    for name in value.__dataclass_fields__:
        yield str(getattr(value, name))


@every
def test_acls_and_transactions(name: str) -> None:
    resources = ("TOPIC", "GROUP", "TRANSACTIONAL_ID")
    rules = [Acl(name, "PREFIXED", name, name, "READ", "DENY", each) for each in resources]
    for line in (
        *(add_acl("b", each) for each in rules),
        *(remove_acl("b", each) for each in rules),
        find_hanging("b", name),
        abort_hanging("b", TopicPartition(name, 0), 5),
        describe_producers("b", name, 0),
    ):
        words = words_of(line)
        assert words[1:5] == ["--bootstrap-server", "b", "--command-config", "admin.properties"]
        assert any(each == name or each.endswith(f"={name}") for each in words), line


@every
def test_other_links(name: str) -> None:
    failed = Connector(name, "source", "FAILED", "worker", (), {})
    idle = Connector(name, "source", "PAUSED", "worker", (), {})
    for connector in (failed, idle):
        link = OtherLink(name, "a", "b", (name,), {name: connector})
        for finding in other_links([link]):
            line = finding.remedy[
                finding.remedy.index("drctl connect" if "drctl" in finding.remedy else "curl") :
            ]
            words = words_of(line)
            assert words[0] in ("drctl", "curl")
            assert len(words) <= 6


@every
def test_manual_commands(name: str) -> None:
    from drctl.plans.inputs import PlanInputs

    seen = PlanInputs(name, "a", "b")
    plan = runs.planned(link=name, principals=(f"User:{name}",), connectors=(name,))
    checked = 0
    for step in plan.steps:
        for line in by_hand(step, seen):
            if line.startswith(TOOLS):
                words_of(line)
                checked += 1
    assert checked >= 4


@every
def test_manual_commands_of_a_failback(name: str) -> None:
    seen, settings = SITE.seen, SITE.link.settings
    one = ConnectorsConfig(source=name)
    back = settings.replicator.reverse
    assert back
    replicator = settings.replicator.model_copy(
        update={"connectors": one, "reverse": back.model_copy(update={"connectors": one})}
    )
    fence = settings.fence.model_copy(update={"principals": (name,)})
    more = {"replicator": replicator, "fence": fence}
    valid = seen.gap.valid
    assert valid
    topic = TopicPartition(name, 0)
    facts = replace(seen.facts, on_source=Cluster("", {topic: OffsetRange(0, 1)}))
    site = replace(
        SITE,
        link=replace(SITE.link, name=name, settings=settings.model_copy(update=more)),
        back=name,
        seen=replace(seen, facts=facts, gap=replace(seen.gap, result=replace(valid, where=name))),
    )
    for lines in commands_by_step(site).values():
        for line in lines:
            if line.startswith(("curl ", "drctl ", "kafka-acls.sh ")):
                words_of(line)


COMMANDS = re.compile(
    r"(?:^|[\s`:;(])(?:drctl (?:gap|offsets|failover|failback|resume|report|reconcile|connect"
    r"|journal)|curl |kafka-[a-z-]+(?:\.sh)? -|chmod )[^`]*$"
)
QUOTED = {
    "quote_lines",
    "quote",
    "command",
    "option",
    "arguments",
    "segment",
    "variable",
    "connector_url",
    "put",
    "abort_hanging",
}
QUOTED_ELSEWHERE = {
    # Joined from quoted words on the lines before.
    ("checks/acls.py", "what"),
    ("checks/acls.py", "who"),
    ("checks/repair_plan.py", "change"),
    ("checks/repair_plan.py", "named"),
    ("views/estimate_text.py", "over"),
    ("views/failback.py", "name"),
    ("views/failback.py", "context.named"),
    ("views/translation.py", "over"),
    ("views/translation.py", "where"),
    ("failback/suggested_commands.py", "context.named"),
    ("failback/suggested_commands.py", "offsets"),
    ("failback/suggested_commands.py", "topics"),
    ("failback/suggested_commands.py", "who"),
    ("views/gap_text.py", "link"),
    ("views/gap_text.py", "out"),
    ("runbook/rendering.py", "_link(inputs)"),
    # Constants of drctl.
    ("views/estimate_text.py", "only"),
    ("views/estimate_text.py", "too"),
    ("steps/commit_offsets.py", "LEFT_OUT"),
    ("failback/suggested_commands.py", "' --rebuild' * context.seen.rebuilding"),
    ("failback/rebuilding.py", "INTACT"),
    ("failback/situation.py", "INTACT"),
    ("runbook/rendering.py", "_ADMIN"),
    # Prose that names a command: the value after it is not part of the command.
    ("checks/acls.py", "remedy"),
    ("cli/reconcile.py", "config.state_dir"),
    ("app/loss.py", "kept.file.parent.name"),
    ("app/loss.py", "store.where"),
    ("engine/run_state.py", "run"),
    ("steps/enable_writes.py", "source"),
    ("failback/gap_results.py", "wrong"),
    ("failback/situation.py", "facts.source"),
    ("failback/situation.py", "facts.target"),
    ("failback/blockers.py", "each.repair"),
    ("failback/steps.py", "facts.source"),
    ("failback/steps.py", "facts.target"),
    ("views/run_completion.py", "plain(str(found.file.parent))"),
    ("views/run_completion.py", "scope"),
    ("views/run_completion.py", "when"),
}


@pytest.mark.slow
def test_no_name_is_unquoted_in_a_command() -> None:
    """Every f-string that starts with a command line quotes its values."""
    root = Path(drctl.__file__).parent
    found = []
    for file in sorted(root.rglob("*.py")):
        name = str(file.relative_to(root))
        if name.startswith("lab/") or name.startswith("cli/drill/inject"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found += [f"{name}:{node.lineno}: {problem}" for problem in unquoted(node, name)]
    assert not found, "\n".join(found)


def unquoted(text: ast.JoinedStr, file: str) -> Iterator[str]:
    before = ""
    for part in text.values:
        if isinstance(part, ast.Constant):
            before += str(part.value)
            continue
        assert isinstance(part, ast.FormattedValue)
        value = part.value
        called = value.func if isinstance(value, ast.Call) else None
        quoted = isinstance(called, ast.Name) and called.id in QUOTED
        if not quoted and COMMANDS.search(before):
            value_text = ast.unparse(value)
            if (file, value_text) not in QUOTED_ELSEWHERE:
                yield f"{before[-60:]}{{{value_text}}}"
        before += "X"


def test_a_quoted_name_is_detected() -> None:
    """The test above detects what it should."""
    lines: Sequence[str] = (
        'f"see `drctl resume {run} --execute`"',
        'f"stop it: curl -X PUT $CONNECT/connectors/{name}/stop"',
        'f"kafka-configs --alter --entity-name {who}"',
    )
    for line in lines:
        (node,) = (n for n in ast.walk(ast.parse(line)) if isinstance(n, ast.JoinedStr))
        assert list(unquoted(node, "x"))
    (good,) = (
        n
        for n in ast.walk(ast.parse('f"drctl resume {quote(run)} on {x}"'))
        if isinstance(n, ast.JoinedStr)
    )
    assert list(unquoted(good, "x")) == ["drctl resume X on {x}"]
