"""Two links fence the same principal from the same topic of one cluster."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from drctl.engine.kind import Kind, State
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.kafka.acls import SharedRules
from drctl.model.errors import Refused
from drctl.model.fencing import Denied, Enforcement, Topics, denials, rules_of_other_links, sign
from drctl.model.repairs import Acl, Acls
from drctl.model.topology import Unavailable
from drctl.steps.enable_writes import EnableWrites
from drctl.steps.fences import FENCE_PRODUCERS

APP = "User:app"
(RULE,) = denials([APP], [Topics("orders")], [Denied.WRITE])


@dataclass
class Cluster:
    """The ACLs of one cluster, with their readers and writers."""

    rules: set[Acl] = field(default_factory=set)
    link: str = ""
    blind: bool = False

    def topics(self) -> tuple[str, ...]:
        return ("orders",)

    def target_topic(self, topic: str) -> str:
        return topic

    def deny(self, rules: Collection[Acl]) -> Mapping[Acl, Unavailable | None]:
        self.rules |= set(rules)
        return dict.fromkeys(rules)

    def restore(self, rules: Collection[Acl]) -> Mapping[Acl, Unavailable | None]:
        self.rules -= set(rules)
        return dict.fromkeys(rules)

    def enforcement(self, rules: Collection[Acl], topics: Collection[str]) -> Enforcement:
        missing = set(rules) - self.rules
        return Enforcement({1: Unavailable("not there yet") if missing else None}, len(rules), 1)

    def lifted(self, rules: Collection[Acl], topics: Collection[str]) -> Enforcement:
        left = set(rules) & self.rules
        return Enforcement({1: Unavailable("still there") if left else None}, len(rules), 1)

    def acls(self, name: str = "") -> Any:
        if name:
            return SharedRules(self, self, self.link) if self.link else self
        return Unavailable("not allowed") if self.blind else Acls(True, tuple(sorted(self.rules)))

    def as_link(self, link: str) -> "Cluster":
        """Return the writer that the runs of a link use."""
        return Cluster(self.rules, link, self.blind)


@dataclass
class Run:
    """The fence of one run."""

    cluster: Cluster
    link: str

    def __post_init__(self) -> None:
        settings = {"link": self.link, "cluster": "p", "principals": [APP], "stabilize_seconds": 1}
        self.look = cast(LinkReader, self.cluster)
        self.writer = cast(LinkWriter, self.cluster.as_link(self.link))
        self.intent = Kind(FENCE_PRODUCERS).check(settings, {}, self.look)

    def fence(self) -> "Run":
        Kind(FENCE_PRODUCERS).apply(self.intent, self.writer)
        return self

    def lift(self) -> str:
        Kind(FENCE_PRODUCERS).undo(self.intent, self.writer)
        seen = Kind(FENCE_PRODUCERS).verify_undo(self.intent, self.look)
        assert seen.state is State.DONE
        return seen.message


@pytest.mark.parametrize("first", [0, 1])
def test_lifting_one_fence_keeps_the_fence_of_another_link(first: int) -> None:
    cluster = Cluster()
    runs = [Run(cluster, "a").fence(), Run(cluster, "b").fence()]
    other = "ba"[first]
    assert f"1 stay: the fence of link {other} uses them" in runs[first].lift()
    assert cluster.rules == {RULE, sign(RULE, other)}
    assert runs[1 - first].lift().startswith("1 ACL was removed")
    assert cluster.rules == set()


def test_acls_that_a_person_set_are_never_removed() -> None:
    cluster = Cluster({RULE})
    run = Run(cluster, "a").fence()
    assert cluster.rules == {RULE}
    assert run.lift() == "no ACL had been added"
    assert cluster.rules == {RULE}


def test_lifting_twice_equals_lifting_once() -> None:
    cluster = Cluster()
    run = Run(cluster, "a").fence()
    run.lift()
    run.lift()
    assert cluster.rules == set()


def test_a_fence_is_not_lifted_without_a_read() -> None:
    cluster = Cluster()
    Run(cluster, "a").fence()
    blind = cluster.as_link("a")
    blind.blind = True
    answers = blind.acls("p").restore([RULE])
    assert "cannot tell whether another link needs it: not allowed" in answers[RULE].reason
    assert RULE in cluster.rules


def test_a_failback_lifts_the_fence_of_its_link() -> None:
    cluster = Cluster()
    Run(cluster, "main").fence()
    settings = {"link": "main", "cluster": "p", "principals": [APP]}
    intent = Kind(EnableWrites()).check(settings, {}, cast(LinkReader, cluster))
    cluster.as_link("main").acls("p").restore([Acl(*each) for each in intent["lifted"]])
    assert cluster.rules == set()


@pytest.mark.parametrize(("one", "other"), [("main", "main-back"), ("a", "a:User"), ("a%3A", "a:")])
def test_no_two_links_have_the_same_mark(one: str, other: str) -> None:
    assert sign(RULE, one) != sign(RULE, other)
    for lifting, staying in ((one, other), (other, one)):
        cluster = Cluster()
        runs = {link: Run(cluster, link).fence() for link in (one, other)}
        assert f"the fence of link {staying} uses them" in runs[lifting].lift()
        assert cluster.rules == {RULE, sign(RULE, staying)}
        assert runs[staying].lift().startswith("1 ACL was removed")
        assert cluster.rules == set()


def test_marks_of_an_earlier_build_are_never_removed() -> None:
    """`main` and `main-back` are marked alike: the owner is unknown."""
    old = RULE._replace(principal=f"User:drctl-fence:main:{APP}")
    for link in ("main", "main-back"):
        cluster = Cluster({RULE, old})
        run = Run(cluster, link).fence()
        assert "main or main-back (signed by an earlier drctl)" in run.lift()
        assert cluster.rules == {RULE, old}
        settings = {"link": link, "cluster": "p", "principals": [APP]}
        with pytest.raises(Refused, match="signed by an earlier drctl") as no:
            Kind(EnableWrites()).check(settings, {}, cast(LinkReader, cluster))
        assert "whose principal begins with User:drctl-fence:main:" in no.value.hint


def test_a_lifted_fence_of_an_earlier_run_is_set_again_and_stays() -> None:
    cluster = Cluster()
    Run(cluster, "main").fence()
    whole = set(cluster.rules)
    main = Run(cluster, "main").fence()
    assert cluster.rules == whole
    cluster.rules.clear()
    main.fence()
    assert cluster.rules == whole
    assert main.lift() == "no ACL had been added"
    assert cluster.rules == whole


def test_writes_are_not_enabled_while_another_link_fences_the_cluster() -> None:
    cluster = Cluster()
    Run(cluster, "main").fence()
    Run(cluster, "other").fence()
    settings = {"link": "main", "cluster": "p", "principals": [APP]}
    with pytest.raises(Refused, match=r"fence-of-another-link: the fence of link other") as no:
        Kind(EnableWrites()).check(settings, {}, cast(LinkReader, cluster))
    assert "User:drctl-fence-of:other:" in no.value.hint


def test_marks_identify_acls_and_links() -> None:
    everybody = RULE._replace(principal="User:*")
    present = [sign(RULE, "a"), sign(everybody, "b"), RULE]
    found = {rule: owner.link for rule, owner in rules_of_other_links(present, "c").items()}
    assert found == {RULE: "a", everybody: "b"}
    assert rules_of_other_links(present, "a").keys() == {everybody}
    assert sign(RULE, "a").permission == "DENY"


def test_acls_that_do_not_exist_are_not_awaited() -> None:
    """A run that died before it created its ACLs does not ask brokers whether they enforce them."""
    run = Run(Cluster(), "main")
    seen = Kind(FENCE_PRODUCERS).verify(run.intent, run.look)
    assert not hasattr(run.look, "fence")
    assert (seen.state, seen.message) == (State.WAITING, "ACLs on p so far: 0 of 1")
