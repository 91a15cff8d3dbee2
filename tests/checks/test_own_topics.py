"""The check on who may write to drctl's topics knows all of them."""

import re
from pathlib import Path

import drctl
from drctl.checks.acls import ON_TARGET, PREFIX
from drctl.config.schema import LedgerConfig
from drctl.formats import provenance
from drctl.model.fencing import PROBE_TOPIC


def test_every_topic_of_drctl_is_checked() -> None:
    """All names in the source code are checked, except the ledger, which is configured.

    No topic has the name that a probe of the fence uses.
    """
    source = Path(drctl.__file__).parent
    named = {
        name.rstrip("*")
        for path in source.rglob("*.py")
        for name in re.findall(rf'"({PREFIX}[a-z_.*]+)"', path.read_text(encoding="utf-8"))
    }
    ledger = LedgerConfig(cluster="b").topic
    assert named - {PROBE_TOPIC} == {*ON_TARGET, ledger, provenance.HEADER, PREFIX} - {PREFIX}
