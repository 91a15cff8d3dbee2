"""What `status` saw, on one screen; nothing of what clusters say is rich markup."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from drctl.checks.causes import Unseen, network_suspected, told_once
from drctl.checks.go import NOT_ASKED, Answer, StatusNow, TopicRpo
from drctl.model.finding import Finding
from drctl.model.moments import utc
from drctl.views.status_text import connector_words, groups_words, rpo_words
from drctl.views.text import plain, sentence

_TOPICS = 10
_OTHERS = 6


def status_table(seen: StatusNow) -> RenderableType:
    """Go or no-go, blockers, RPO, replication, groups."""
    return Group(*_parts(seen))


def watched_table(seen: StatusNow, now: float, failed: bool) -> RenderableType:
    """The same with the age of the look."""
    age = max(0.0, now - seen.at_ms / 1000 - seen.took_s)
    told = f"looked {age:,.0f} s ago" + ("; the last look failed" if failed else "")
    return Group(*_parts(seen), Text(f"{told}; Ctrl-C ends it", "bold red" if failed else "dim"))


def waiting_table(link: str) -> RenderableType:
    """Before the first look came to its end."""
    return Text(f"looking at link {sentence(link)}", "dim")


def _parts(seen: StatusNow) -> Iterator[RenderableType]:
    if network := network_suspected(seen.planned.blockers):
        yield Text(sentence(network), "bold red")
    yield _answer("planned failover", seen.planned)
    lost = f"if {sentence(seen.source)} were lost now"
    told = rpo_words(seen.rpo)
    allowed = f"allowed are {seen.allowed.max_rpo_seconds:g} s"
    yield _answer(f"{lost}: {sentence(told)}; {allowed}", seen.unplanned)
    yield Text(f"link {plain(seen.link)}: {plain(seen.source)} -> {plain(seen.target)}", "dim")
    yield from _blockers(seen)
    others, more = told_once(seen.others)
    told_above = {each.because for each in told_once(_all_blockers(seen))[1]}
    unseen = [each for each in more if each.because not in told_above]
    if others or unseen:
        yield Text("\nTo know of", "bold")
        yield from (_finding(each) for each in others[:_OTHERS])
        yield from map(_unseen, unseen)
        if len(others) > _OTHERS:
            yield Text(f"  and {len(others) - _OTHERS:,} more: drctl doctor", "dim")
    yield Text("\nRPO by topic", "bold")
    yield from _topics(seen)
    yield Text("\nReplication", "bold")
    told_of = tuple(connector_words(c for _, c in sorted(seen.connectors.items())))
    yield Text(f"  {sentence('; '.join(told_of)) or 'no connector is known'}")
    yield Text("\nGroups", "bold")
    yield Text(f"  {sentence(groups_words(seen))}", "yellow" if seen.groups.left_out else "")
    yield Text(
        f"\n{utc(seen.at_ms)}, in {seen.took_s:.1f} s; not asked here, but by drctl doctor:"
        f" {', '.join(NOT_ASKED)}",
        "dim",
    )


def _answer(what: str, answer: Answer) -> Text:
    style, head = ("bold green", "GO   ") if answer.go else ("bold red", "NO-GO")
    return Text.assemble((f"{head}  ", style), what)


def _blockers(seen: StatusNow) -> Iterator[Text]:
    both = [
        f for f in seen.planned.blockers if f.check in {u.check for u in seen.unplanned.blockers}
    ]
    ahead = ("planned", [f for f in seen.planned.blockers if f not in both])
    lost = ("unplanned", [f for f in seen.unplanned.blockers if f.check not in _names(both)])
    for title, rows in (("any failover", both), ahead, lost):
        if rows:
            yield Text(f"\nIn the way ({title})", "bold")
            told, unseen = told_once(rows)
            for each in told:
                yield _finding(each)
                if each.cure:
                    yield Text(f"{'':14}cure: {sentence(each.cure)}", "dim")
            yield from map(_unseen, unseen)


def _all_blockers(seen: StatusNow) -> tuple[Finding, ...]:
    return (*seen.planned.blockers, *seen.unplanned.blockers)


def _unseen(unseen: Unseen) -> Text:
    return Text(f"  not-checked {sentence(unseen.words)}", "yellow")


def _names(findings: Sequence[Finding]) -> set[str]:
    return {each.check for each in findings}


def _finding(finding: Finding) -> Text:
    words = sentence(f"{finding.check}: {finding.subject}: {finding.reason}")
    return Text.assemble((f"  {finding.status.value:<11} ", "yellow"), words)


def _topics(seen: StatusNow) -> Iterator[RenderableType]:
    if not seen.topics:
        yield Text(f"  {sentence(seen.rpo.how)}")
        return
    table = Table(box=None, padding=(0, 2, 0, 2))
    for heading in ("topic", "records", "at most", "seconds", "how"):
        numeric = heading not in ("topic", "how")
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in seen.topics[:_TOPICS]:
        table.add_row(*map(Text, _topic(row)))
    yield table
    if len(seen.topics) > _TOPICS:
        yield Text(
            f"  and {len(seen.topics) - _TOPICS:,} topics that are not further behind", "dim"
        )


def _topic(row: TopicRpo) -> tuple[str, ...]:
    rpo = row.rpo
    numbers = (rpo.records, rpo.at_most)
    seconds = "?" if rpo.seconds is None else f"{rpo.seconds:,.1f}"
    how = sentence(rpo.how) + (f"; {row.unknown} partitions unknown" if row.unknown else "")
    return (plain(row.topic), *("?" if n is None else f"{n:,}" for n in numbers), seconds, how)
