"""Whether the records that a result names are those of the source: topics may be made anew."""

from drctl.failback.gap_results import GapEvidence, Sample
from drctl.model.ports import ClusterReader
from drctl.model.topology import Record, Unavailable


def not_the_same(result: GapEvidence, source: ClusterReader) -> str:
    """Why the result is of other topics; empty where nothing speaks for it.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    if not result.samples:
        return ""
    found = source.records([(each.place, each.offset) for each in result.samples])
    for each in result.samples:
        record = found.get((each.place, each.offset))
        if record is not None and not isinstance(record, Unavailable) and not _is(each, record):
            return (
                f"offset {each.offset} of {each.place} holds another record than it names: the"
                " topic was made anew"
            )
    return ""


def _is(sample: Sample, record: Record) -> bool:
    return (sample.timestamp_ms, sample.key) == (record.timestamp_ms, record.key)
