"""What an election would lose, and how that is known."""

from drctl.elections.loss import Beyond, Candidate, Evidence, Loss, candidate_of, loss_of
from drctl.model.topology import OffsetRange, Unavailable
from tests.elections.cluster_states import PLACE, partition, reader


def found(evidence: tuple[Evidence, ...] = (), groups: tuple[Beyond, ...] = ()) -> Loss:
    """Return the loss if broker 2 lags, with its log at 100; broker 3 led and is gone."""
    seen = reader(partition((2, 3), (3,)), alive=(1, 2), ends={2: 100})
    loss = loss_of(seen.partitions[0], seen, evidence, groups)
    assert loss is not None
    return loss


def test_the_first_live_replica_is_elected_however_short() -> None:
    behind = partition((1, 2, 3), (3,))
    assert candidate_of(behind, {1, 2}) == Candidate(1, clean=False)
    assert candidate_of(behind, {2}) == Candidate(2, clean=False)
    assert candidate_of(behind, set()) is None


def test_a_complete_replica_comes_first() -> None:
    assert candidate_of(partition((1, 2, 3), (3,)), {1, 3}) == Candidate(3, clean=True)
    eligible = partition((1, 2, 3), (), eligible=(2,))
    assert candidate_of(eligible, {1, 2}) == Candidate(2, clean=True)
    assert candidate_of(partition((1, 2), (), eligible=None), {1, 2}) == Candidate(1, clean=False)


def test_without_evidence_the_loss_is_unknown() -> None:
    loss = found()
    assert loss.offsets is None
    assert not loss.exact
    assert loss.message.startswith("unknown: the log of broker 2 ends at 100")


def test_records_that_groups_had_read_are_a_lower_bound() -> None:
    loss = found((Evidence(PLACE, "group app has read up to 180", 180),), (Beyond("app", 180),))
    assert loss.offsets == OffsetRange(100, 180)
    assert not loss.exact
    assert loss.message == "at least 80 offsets, 100 to 179: group app has read up to 180"
    assert loss.beyond == (Beyond("app", 180),)


def test_the_end_of_a_disk_that_was_read_is_exact() -> None:
    group = Evidence(PLACE, "group app has read up to 150", 150)
    disk = Evidence(PLACE, "the disk", 180, exact=True)
    loss = found((group, disk))
    assert (loss.offsets, loss.exact) == (OffsetRange(100, 180), True)
    assert loss.message == "80 offsets, 100 to 179: the disk"
    contradicted = found((disk, Evidence(PLACE, "group app has read up to 190", 190)))
    assert not contradicted.exact, "a group has read beyond that end offset"
    assert contradicted.offsets == OffsetRange(100, 190)


def test_evidence_below_the_replicas_end_proves_nothing() -> None:
    loss = found((Evidence(PLACE, "group app has read up to 60", 60),))
    assert loss.offsets == OffsetRange(100, 100)
    assert loss.message.startswith("none known: the log of broker 2 ends at 100")
    assert found((Evidence(PLACE, "the disk", 90, exact=True),)).message.startswith("none: ")


def test_records_on_the_other_cluster_are_counted() -> None:
    group = Evidence(PLACE, "group app has read up to 180", 180)
    loss = found((group, Evidence(PLACE, "copied to b", 150, copied=True)))
    assert loss.elsewhere == 50
    assert found((group,)).elsewhere == 0


def test_a_longer_live_replica_is_named() -> None:
    seen = reader(partition((2, 1, 3), (3,)), alive=(1, 2), ends={1: 140, 2: 100})
    loss = loss_of(seen.partitions[0], seen, (), ())
    assert loss is not None
    assert (loss.candidate.node, loss.longer) == (2, ((1, 140),))
    assert (
        loss.message == "at least 40 offsets, 100 to 139: the log of broker 1 reaches that offset"
    )


def test_a_replica_with_an_unknown_end() -> None:
    silent = Unavailable("not authorized")
    seen = reader(partition((2, 3), (3,)), alive=(2,), ends={2: silent})
    loss = loss_of(seen.partitions[0], seen, (Evidence(PLACE, "x", 180),), ())
    assert loss is not None
    assert loss.offsets is None
    assert loss.message == ("unknown: broker 2 does not report its log end offset: not authorized")


def test_an_in_sync_replica_loses_nothing() -> None:
    seen = reader(partition((2, 3), (3,)), alive=(3,), ends={3: 180})
    loss = loss_of(seen.partitions[0], seen, (Evidence(PLACE, "x", 190),), ())
    assert loss is not None
    assert loss.offsets == OffsetRange(180, 180)
    assert loss.message == "no loss: broker 3 has all committed records"


def test_no_replica_can_be_elected() -> None:
    seen = reader(partition((2, 3), (3,)), alive=(1,))
    assert loss_of(seen.partitions[0], seen, (), ()) is None
