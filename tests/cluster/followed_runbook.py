"""A shipped runbook as people follow it: drctl runs it, they do what it asks and confirm it.

What they type are the command lines of its page, in their order.
"""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from tests.cli.conftest import Ran
from tests.cli.documents import check
from tests.cluster.command import Drctl, without_frames
from tests.cluster.link_command import GO, steps_of
from tests.kafka.tools import run_tool
from tests.lab.cluster_under_test import ClusterUnderTest

STEP = re.compile(r"^- \[ \] \*\*\d+\. `([^`]+)`\*\*", re.MULTILINE)


@dataclass(frozen=True)
class FollowedRunbook:
    """A runbook for one link.

    Attributes:
        cluster: the cluster on which Kafka's own tools run.
        values: values of its parameters.
        replaced: values for placeholders in capitals.
    """

    drctl: Drctl
    name: str
    link: str
    cluster: ClusterUnderTest
    values: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[str, str] = field(default_factory=dict)

    @property
    def _given(self) -> list[str]:
        sets = [
            word for name, value in self.values.items() for word in ("--set", f"{name}={value}")
        ]
        return [self.name, "--link", self.link, *sets]

    def lines(self, step: str) -> list[list[str]]:
        """Return the command lines of a step on its page."""
        ran = self.drctl("runbook", "render", *self._given)
        assert ran.code == 0, ran.stderr
        _, *parts = STEP.split(ran.stdout.partition("## Afterwards")[0])
        text = dict(zip(parts[::2], parts[1::2], strict=True))[step]
        blocks = "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
        for word, meant in self.replaced.items():
            blocks = re.sub(rf"\b{word}\b", meant, blocks)
        return [shlex.split(line) for line in blocks.splitlines() if line.strip()]

    def type(self, step: str, *codes: int) -> list[Ran]:
        """Run the command lines of a step.

        Args:
            codes: expected exit codes; 0 by default.
        """
        lines = self.lines(step)
        assert lines, f"{step} has no command"
        ran = [self._typed(line) for line in lines]
        assert [each.code for each in ran] == list(codes or [0] * len(lines)), ran
        return ran

    def _typed(self, words: list[str]) -> Ran:
        if words[0] == "drctl":
            # Who executes a plan at a terminal types the cluster's name.
            return self.drctl(*words[1:], *(["--yes"] if "--execute" in words else []))
        return run_tool(words, self.cluster.properties(), self.drctl.folder)

    def follow(self, code: int = 0, **acts: Callable[[], object]) -> dict[str, Any]:
        """Run it to its end on a terminal; return its document.

        Args:
            acts: actions before the confirmation of each step, by step id with underscores, in
                order.
        """
        words = ("runbook", "run", *self._given, *GO, "--output", "json")
        running = self.drctl.on_terminal(*words, name=f"followed-{uuid4().hex}")
        try:
            for number, act in enumerate(acts.values(), 1):
                running.await_stderr("otherwise no:", 120, times=number)
                act()
                running.type("yes")
            ended = running.wait(240)
        finally:
            running.kill()
        assert ended.code == code, ended.stdout + without_frames(ended.stderr)
        document = check(ended.document())
        asked = [step.replace("_", "-") for step in acts]
        assert [step for step in steps_of(document, "status") if step in asked] == asked
        assert ended.stderr.count("otherwise no:") == len(asked), ended.stderr
        return document
