"""For a missing setting the checks use the default of MirrorMaker 2's own classes."""

import logging
import os
import re
import subprocess
from pathlib import Path

import pytest

from drctl.artifacts.jars import resolve
from drctl.artifacts.java import find_java
from drctl.checks.connector_settings import CHECKPOINT, SOURCE
from drctl.checks.registry import findings
from tests.checks.observing import observed

SUBJECTS = {"connector copy": SOURCE, "connector points": CHECKPOINT}
MISSING = re.compile(r"([\w.-]+) is not set; the default is ([^;]+)")
NOT_ITS_OWN = {  # of the consumer that it makes
    "consumer.auto.offset.reset",
    "consumer.isolation.level",
}
OF_THE_WORKER = {"header.converter"}
"""Connectors without this setting use the worker's."""
REQUIRED = {"source.cluster.alias": "a", "target.cluster.alias": "b"}
DEADLINE_S = 60


def taken() -> set[tuple[str, str, str]]:
    """Return class, key and default of every setting that the checks read."""
    case = {
        "link": {"replicator": {"kind": "mirrormaker2"}},
        "connectors": {
            "copy": {"connector.class": SOURCE, **REQUIRED},
            "points": {"connector.class": CHECKPOINT, **REQUIRED},
        },
        "worker": {},
        "source_topics": {},
        "source_groups": [],
    }
    return {
        (SUBJECTS[finding.subject], key, value)
        for finding in findings(observed(case))
        if finding.subject in SUBJECTS
        for key, value in MISSING.findall(finding.evidence)
        if key not in NOT_ITS_OWN
    }


@pytest.mark.jvm
def test_defaults_are_those_of_the_real_classes() -> None:
    jars = resolve("connect", progress=logging.getLogger("tests").info)
    program = str(Path(__file__).with_name("Defaults.java"))
    words = [str(find_java()), "-cp", os.pathsep.join(map(str, jars)), program, SOURCE, CHECKPOINT]
    done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    lines = (line.split("\t") for line in done.stdout.splitlines())
    real = {(name, key): value.replace(" ", "") for name, key, value in lines}
    ours = taken()
    assert len(ours) > 15
    for name, key, value in sorted(ours):
        default = real["worker" if key in OF_THE_WORKER else name, key]
        if key.endswith(".class"):
            default = default.rpartition(".")[2]
        assert value.replace(" ", "") == default, (name, key)
