"""What the benchmark writes in place of MirrorMaker 2 has MirrorMaker 2's format."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bench.crowd import Log
from bench.evidence import remembered, syncs, translated

LOGS = st.integers(1, 20_000).flatmap(
    lambda total: st.builds(Log, st.just([0] * total), st.integers(0, total - 1))
)


@given(LOGS)
def test_syncs_cover_the_log_at_the_configured_distance(log: Log) -> None:
    written = syncs(log)
    assert written[0].downstream == 0
    assert written[-1].upstream == len(log.times) - 1
    assert all(0 < b.upstream - a.upstream <= 101 for a, b in pairwise(written))
    assert all(sync.upstream - sync.downstream == log.skipped for sync in written)


@given(LOGS)
def test_old_syncs_are_sparse(log: Log) -> None:
    kept = remembered(syncs(log))
    assert len(kept) <= 64
    behind = [kept[-1].upstream - sync.upstream for sync in kept[1:]]
    assert len({distance.bit_length() for distance in behind}) == len(behind)


@given(LOGS, st.data())
def test_no_translation_skips_records(log: Log, data: st.DataObject) -> None:
    offset = data.draw(st.integers(log.skipped + 1, len(log.times)))
    exact = log.exact(offset)
    by_all, by_few = (translated(known, offset) for known in (syncs(log), remembered(syncs(log))))
    assert by_few <= by_all <= exact
    assert exact - by_all <= 101
    assert translated(syncs(log), len(log.times)) == log.exact(len(log.times))
