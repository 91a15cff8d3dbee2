"""Connectors and ACLs that an operator such as Strimzi manages: it undoes what drctl changes.

Strimzi's Cluster Operator resumes a connector whose resource does not say `stopped`, and its User
Operator deletes ACLs that no KafkaUser has, both at each reconciliation (every 2 minutes by
default): AbstractConnectOperator, SimpleAclOperator.
"""

import re

from drctl.checks.check import Family, Prechecks, check, listed
from drctl.checks.observed import NOT_QUERIED, Observed
from drctl.checks.verdict import Verdict, fail, ok, require, warn
from drctl.model.finding import Status
from drctl.model.loss import Mode
from drctl.model.replication import Connector
from drctl.model.text import plural

_NAME = re.compile(r".+->.+\.Mirror\w+Connector")
"""The names of the connectors of a KafkaMirrorMaker2 resource."""

_VALUE = re.compile(r"strimzi|/opt/kafka/mm2-", re.IGNORECASE)
"""Strimzi's configuration providers, and the paths of the secrets that it mounts."""

_PAGE = "docs/howto/strimzi.md"


def strimzi_marks(connector: Connector) -> tuple[str, ...]:
    """What shows that Strimzi manages a connector: its name, or keys of its configuration."""
    keys = (key for key, value in connector.config.items() if _VALUE.search(f"{key} {value}"))
    name = ("its name",) if _NAME.fullmatch(connector.name) else ()
    return (*name, *sorted(keys))


def managed_remedy(connector: Connector) -> str:
    """An addition to a remedy that stops a connector; empty if Strimzi does not manage it."""
    if not strimzi_marks(connector):
        return ""
    return f"; Strimzi resumes it: set `state: stopped` in its resource instead ({_PAGE})"


@check(
    "connectors-managed-elsewhere",
    Family.REPLICATION,
    Status.WARN,
    Status.FAIL,
    prechecks=Prechecks(),
)
def connectors(observed: Observed) -> Verdict | None:
    """No operator such as Strimzi resumes the connectors that a failover stops."""
    names = observed.link.settings.replicator.connectors.named
    if observed.connectors is NOT_QUERIED or not names:
        return None
    subject = f"connectors of link {observed.link.name}"
    known = require(observed.connectors, subject, "who manages them is", "drctl connect status")
    marks = {name: strimzi_marks(known[name]) for name in names if name in known}
    managed = [name for name, found in marks.items() if found]
    if not managed:
        return ok(
            subject, "nothing shows that Strimzi manages them", plural(len(marks), "connector")
        )
    reason = f"Strimzi manages {listed(managed)}"
    evidence = "; ".join(f"{name}: {listed(marks[name])}" for name in managed)
    impact = "its operator resumes a connector that drctl has stopped, within minutes"
    remedy = f"replace `connectors` with the commands `stop`, `start` and `stopped` ({_PAGE})"
    judge = fail if observed.mode is Mode.PLANNED else warn
    return judge(subject, reason, evidence, impact, remedy)
