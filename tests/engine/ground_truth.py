"""The state of two clusters that a completed step implies, read directly from them."""

from collections.abc import Callable, Mapping

from drctl.engine.failback_state import drops_copies
from drctl.model.groups import Committed, Group
from drctl.model.plan import Json
from drctl.model.repairs import Acl
from drctl.model.topology import TopicPartition
from drctl.steps.stop_replication import RUNNING, STOPPED
from tests.engine.client_state import NEW
from tests.engine.pair import Pair

Truth = Callable[[Pair, Json], bool]

MAY_CHANGE: Mapping[str, frozenset[str]] = {
    "rules": frozenset(
        {
            *("fence-producers", "fence-consumers", "fence-recovered"),
            *("enable-writes", "enable-writes-recovered", "probe-acls", "remove-probe-acls"),
        }
    ),
    "Connect": frozenset(
        {
            *(
                "request-stop",
                "stop-replication",
                "keep-stopped",
                "exclude-reconciled-records",
                "set-start-offsets",
            ),
            *("start-replication", "set-start-offsets-latest", "restart-replication"),
            *("set-start-offsets-earliest", "include-reconciled-records"),
            *("keep-reverse-stopped", "set-start-offsets-reverse"),
            "set-start-offsets-after-search",
        }
    ),
    "sources": frozenset(
        {
            "stop-source-connectors",
            "keep-source-connectors-stopped",
            "move-source-positions",
            "resume-source-connectors",
        }
    ),
    "groups": frozenset({"prepare-groups"}),
    "positions": frozenset({"commit-offsets"}),
    "ids": frozenset({"advance-producer-ids"}),
    "transactions": frozenset({"abort-transactions"}),
    "probe_record": frozenset({"enable-writes", "enable-writes-recovered", "verify-clients"}),
    "endpoint 1": frozenset({"switch-endpoint"}),
    "endpoint 2": frozenset({"switch-endpoint"}),
    "commands": frozenset(
        {
            "command",
            "command-fence",
            "command-fence-recovered",
            "command-stop-replication",
            "command-keep-stopped",
        }
    ),
    "evidence": frozenset(
        {"snapshot-state", "manual-start-replication", "manual-restart-replication"}
    ),
    "records": frozenset({"reconcile", "reconcile-reverse"}),
}
"""The step kinds that may change each part."""


def _denied(pair: Pair, intent: Json) -> bool:
    site = pair.sites[intent["cluster"]]
    rules = {Acl(*each) for each in intent["rules"]}
    return rules <= site.rules.rules and rules <= site.rules.second


def _walled(pair: Pair, intent: Json) -> bool:
    return pair.sites[intent["cluster"]].fenced_outside


def _all(state: str) -> Truth:
    return lambda pair, intent: all(
        pair.workers.connectors[name].state == state for name in intent["before"]
    )


def _committed(pair: Pair, intent: Json) -> bool:
    return _offsets_are(pair, intent, 4)


def _offsets_are(pair: Pair, intent: Json, column: int) -> bool:
    """Whether committed offsets equal a column of the intent."""
    positions = pair.sites[intent["cluster"]].positions.positions
    return all(
        positions.get(line[0], {}).get(TopicPartition(*line[1:3]))
        == (line[column] and Committed(*line[column]))
        for line in intent["lines"]
    )


def _prepared(pair: Pair, intent: Json) -> bool:
    groups = pair.arrivals.groups_of[intent["target"]]
    found = [groups[name] for name in intent["create"]]
    return all(isinstance(each, Group) and each.protocol is NEW for each in found)


def _skipped(pair: Pair, intent: Json) -> bool:
    return all(isinstance(n, int) and n > intent["beyond"] for n in pair.arrivals.given.values())


def _ended(pair: Pair, intent: Json) -> bool:
    there = pair.sites[intent["cluster"]].logs.open_
    aborted = {(each["topic"], each["partition"]) for each in intent["transactions"]}
    return not aborted & there.keys()


def _opened(pair: Pair, intent: Json) -> bool:
    site = pair.sites[intent["cluster"]]
    lifted = {Acl(*each) for each in intent["lifted"]}
    return pair.has_probe_record(intent["cluster"]) and not lifted & (
        site.rules.rules | site.rules.second
    )


def _closed(pair: Pair, intent: Json) -> bool:
    """Whether everyone who was fenced is still fenced, or is fenced again."""
    rules = pair.sites[intent["cluster"]].rules
    lifted = {Acl(*each) for each in intent["lifted"]}
    return lifted <= rules.rules and lifted <= rules.second


def _switched(pair: Pair, intent: Json) -> bool:
    return pair.endpoints[intent["number"]].cluster == intent["to"]


def _copied(source: str, target: str) -> Truth:
    def all_there(pair: Pair, intent: Json) -> bool:
        ours, theirs = (
            pair.sites[getattr(pair, name)].logs.all_keys() for name in (source, target)
        )
        return bool(intent.get("overridden")) or set(ours) <= set(theirs)

    return all_there


def _decided(pair: Pair, intent: Json) -> bool:
    """Whether all records that only the recovered cluster had are replicated, except discarded
    ones.
    """
    ours, theirs = (set(pair.sites[name].logs.all_keys()) for name in (pair.target, pair.source))
    return ours - theirs == set(getattr(pair, "given_up", ()))


def _quiet(pair: Pair, intent: Json) -> bool:
    """Whether nobody reads from the cluster, or all readers are fenced."""
    return intent["fenced"] or not pair.active(intent["cluster"], "app")


def _listed(pair: Pair, intent: Json) -> bool:
    rules = pair.sites[intent["cluster"]].rules
    return {Acl(*each) for each in intent["added"]} <= rules.rules


def _lifted(pair: Pair, intent: Json) -> bool:
    rules, added = pair.sites[intent["cluster"]].rules, {Acl(*each) for each in intent["added"]}
    return not added & (rules.rules | rules.second)


def _unwalled(pair: Pair, intent: Json) -> bool:
    return not pair.sites[intent["cluster"]].fenced_outside


def _as_before(pair: Pair, intent: Json) -> bool:
    states = {name: pair.workers.connectors[name].state for name in intent["before"]}
    return states == intent["before"]


def _rolled_back(pair: Pair, intent: Json) -> bool:
    return _offsets_are(pair, intent, 3)


def _done_by_hand(pair: Pair, intent: Json) -> bool:
    """Whether the visible effect of a manual step is there."""
    return intent["question"] != "stop-consumers" or pair.source in pair.stopped


def _left_out(pair: Pair, intent: Json) -> bool:
    return drops_copies(pair.workers.connectors[intent["connector"]].config)


def _seeded(pair: Pair, intent: Json) -> bool:
    kept = pair.workers.connectors[intent["connector"]].kept
    return all(
        at is None or kept.get(TopicPartition(topic, number), -1) >= at
        for topic, number, at in intent["wanted"]
    )


def _says_so(pair: Pair, intent: Json) -> bool:
    """Whether the person who did it can see the effect."""
    return pair.manual_actions[intent["question"]].is_so()


def _says_it_was(pair: Pair, intent: Json) -> bool:
    """Whether the person who rolled it back can see that."""
    return pair.manual_actions[f"{intent['question']}.undo"].is_so()


def _emptied(pair: Pair, intent: Json) -> bool:
    """Whether the earlier records are deleted, whatever was written since."""
    logs = pair.sites[intent["cluster"]].logs
    return all(
        TopicPartition(topic, number) not in logs.logs or logs.topic_id(topic) != before
        for topic, number, _, before in intent["held"]
    )


def _from_start(pair: Pair, intent: Json) -> bool:
    """Whether the connector has no offsets, or has replicated from the start since."""
    kept, target = pair.workers.connectors[intent["connector"]].kept, pair.sites[intent["target"]]
    ends = {TopicPartition(topic, number): at for topic, number, at in intent["ends"]}
    places = [TopicPartition(topic, number) for topic, number, _ in intent["wanted"]]
    return all(
        place not in kept or len(target.logs.logs.get(place, ())) > ends.get(place, 0)
        for place in places
    )


def _always(pair: Pair, intent: Json) -> bool:
    """Return True: the step concerns nothing outside drctl."""
    return True


def _arrived(pair: Pair, intent: Json) -> bool:
    """Whether the expected clients are on the target and none on the source."""
    if any(pair.active(intent["source"], group) for group in ("app", "old")):
        return pair.sites[intent["source"]].logs.dead
    return all(pair.active(intent["target"], group) for group in intent["groups"])


def _halted(pair: Pair, intent: Json) -> bool:
    """Whether a user-supplied command stopped all replication."""
    return all(each.wanted == STOPPED for each in pair.workers.connectors.values())


def _sources(state: str) -> Truth:
    """Return whether the intent's source connectors are in this state."""
    return lambda pair, intent: all(
        pair.sources[intent["cluster"]].connectors[name].state == state
        for name in intent.get("before", intent.get("connectors"))
    )


def _sources_as_before(pair: Pair, intent: Json) -> bool:
    there = pair.sources[intent["cluster"]].connectors
    return all(there[name].state == state for name, state in intent["before"].items())


def _source_positions(key: str) -> Truth:
    """Return whether source positions equal one key of the intent's moves."""

    def so(pair: Pair, intent: Json) -> bool:
        kept = pair.sources[intent["target"]].kept
        return all(
            (kept[moves["connector"]].offset if moves["connector"] in kept else None) == move[key]
            for moves in intent["moves"]
            for move in moves["positions"]
        )

    return so


TRUTHS: Mapping[str, Truth] = {
    "stop-source-connectors": _sources(STOPPED),
    "keep-source-connectors-stopped": _sources(STOPPED),
    "move-source-positions": _source_positions("to"),
    "resume-source-connectors": _sources(RUNNING),
    "preflight": lambda pair, intent: not pair.against,
    "snapshot-state": _always,
    "measure-loss": _always,
    "fence-producers": _denied,
    "fence-consumers": _denied,
    "probe-acls": _listed,
    "remove-probe-acls": _lifted,
    "command-fence": _walled,
    "manual-fence": _walled,
    "command": lambda pair, intent: (
        pair.sites[pair.source].fenced_outside is (intent["argv"][1] == "on")
    ),
    "command-stop-replication": _halted,
    "command-keep-stopped": _halted,
    "manual-reconcile": _always,
    "manual": _done_by_hand,
    "manual-change": _done_by_hand,
    "check": lambda pair, intent: not pair.against,
    "manual-check": _always,
    "wait": _always,
    "gap": _always,
    "drain": _copied("source", "target"),
    # The wait for consumers also ends when they make no progress, even if some are active.
    "quiesce-consumers": lambda pair, intent: "ends" in intent or _quiet(pair, intent),
    "request-stop": lambda pair, intent: all(
        pair.workers.connectors[name].wanted == STOPPED for name in intent["before"]
    ),
    "stop-replication": _all(STOPPED),
    "confirm-stop": lambda pair, intent: all(
        pair.workers.connectors[name].state == STOPPED for name in intent["connectors"]
    ),
    "prepare-groups": _prepared,
    "commit-offsets": _committed,
    "advance-producer-ids": _skipped,
    "abort-transactions": _ended,
    "enable-writes": _opened,
    "switch-endpoint": _switched,
    "verify-clients": _arrived,
    "failback-order": _always,
    "fence-recovered": _denied,
    "command-fence-recovered": _walled,
    "manual-fence-recovered": _walled,
    "keep-stopped": _all(STOPPED),
    "keep-reverse-stopped": _all(STOPPED),
    "manual-keep-reverse-stopped": _says_so,
    "find-missing": _always,
    "find-missing-reverse": _always,
    "classify-records": _always,
    "reconcile": _decided,
    "reconcile-reverse": _copied("source", "target"),
    "exclude-reconciled-records": _left_out,
    "include-reconciled-records": lambda pair, intent: not _left_out(pair, intent),
    "manual-keep-stopped": _says_so,
    "manual-stop-replication": _says_so,
    "manual-start-replication": _says_so,
    "manual-restart-replication": _says_so,
    "empty-recovered": _emptied,
    "set-start-offsets-earliest": _from_start,
    "set-start-offsets": _seeded,
    "set-start-offsets-reverse": _seeded,
    "set-start-offsets-after-search": _seeded,
    "keep-group-offsets": _always,
    "enable-writes-recovered": _opened,
    "start-replication": _all(RUNNING),
    "wait-for-catch-up": _copied("source", "target"),
    "set-start-offsets-latest": _seeded,
    "record-end-offsets": _always,
    "restart-replication": _all(RUNNING),
    "verify-copies": _copied("source", "target"),
    "verify-forward-copies": _decided,
    "verify-groups": _always,
    "resolve-outstanding": _always,
}
"""By step kind: what must be true once the step is done."""

ROLLED_BACK: Mapping[str, Truth] = {
    "stop-source-connectors": _sources_as_before,
    "move-source-positions": _source_positions("before"),
    "fence-producers": _lifted,
    "fence-consumers": _lifted,
    "probe-acls": _lifted,
    "command-fence": _unwalled,
    "manual-fence": _unwalled,
    "manual-change": lambda pair, intent: pair.source not in pair.stopped,
    "manual-start-replication": _says_it_was,
    "manual-stop-replication": _says_it_was,
    "enable-writes": _closed,
    "enable-writes-recovered": _closed,
    "restart-replication": _as_before,
    "request-stop": _as_before,
    "stop-replication": _as_before,
    "commit-offsets": _rolled_back,
    "prepare-groups": _always,
    "advance-producer-ids": _always,
    "start-replication": _as_before,
    "set-start-offsets-latest": _always,
}
"""By step kind: what must be true once the step is rolled back."""
