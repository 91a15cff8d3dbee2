"""Events that are in a topic twice, in words."""

from drctl.model.event_duplicates import EventDuplicates, PartitionEvents
from drctl.report.printable import number, plain, plural, sentence


def verdict(result: EventDuplicates) -> str:
    """The answer in one sentence."""
    totals = result.totals
    events = plural(totals.events, "event")
    if totals.repeated:
        found = f"{number(totals.repeated)} of {events} are there a second time"
    elif totals.events:
        found = f"none of {events} is there a second time"
    else:
        found = "no event with an identity was found"
    return f"{found[0].upper()}{found[1:]}." if result.complete else f"Not complete: {found}."


def circumstances(result: EventDuplicates) -> str:
    """Of what and as of when this is."""
    topics = ", ".join(dict.fromkeys(plain(each.topic) for each in result.partitions))
    return (
        f"cluster {plain(result.cluster)}, {topics or 'no topic'}, by the identity of"
        f" {result.format.value} events, offsets as of {result.started:%Y-%m-%d %H:%M:%S} UTC,"
        f" took {result.seconds:.1f} s"
    )


def unknown(result: EventDuplicates) -> tuple[str, ...]:
    """What this does not tell."""
    said = []
    if lost := result.totals.unidentified:
        said.append(
            f"{plural(lost, 'record')} carry no identity that is known (JSON with a source block of"
            " PostgreSQL, MySQL, MariaDB or MongoDB): nobody can tell whether they are there twice."
        )
    for each in result.not_compared:
        name = (
            plain(each.topic) if each.partition is None else f"{plain(each.topic)}-{each.partition}"
        )
        said.append(f"{name}: {sentence(each.reason)}")
    return tuple(said)


def where(each: PartitionEvents) -> str:
    """The stretch in which the repeated events of a partition lie."""
    if each.first is None or each.last is None:
        return "-"
    first, last = each.first.offset, each.last
    return number(first) if first == last else f"{number(first)}-{number(last)}"


def first(each: PartitionEvents) -> str:
    """Its first repeated event."""
    assert each.first is not None
    before = f"{plain(each.topic)}-{each.first.first_partition}"
    told = f": {sentence(each.identity)}" if each.identity else ""
    return (
        f"offset {number(each.first.offset)} of {plain(each.topic)}-{each.partition} is offset"
        f" {number(each.first.first_offset)} of {before} again{told}"
    )
