"""What `status` saw, on one screen; nothing of what clusters say is rich markup."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from drctl.checks.causes import Unseen, network_suspected, told_once
from drctl.checks.go import NOT_ASKED, Answer, StatusNow, TopicRpo
from drctl.cli.tables import filled, heading, stacked
from drctl.model.finding import Finding
from drctl.model.moments import utc
from drctl.views.status_text import connector_words, groups_words, rpo_words
from drctl.views.text import plain, sentence

_TOPICS = 10
_OTHERS = 6
_NUMBERS = ("records", "at most", "seconds")


@stacked
def watched_table(seen: StatusNow, now: float, failed: bool) -> Iterator[RenderableType]:
    """The status with its age."""
    yield status_table(seen)
    age = max(0.0, now - seen.at_ms / 1000 - seen.took_s)
    told = f"looked {age:,.0f} s ago" + ("; the last look failed" if failed else "")
    yield Text(f"{told}; Ctrl-C ends it", "bold red" if failed else "dim")


def waiting_table(link: str) -> RenderableType:
    """Before the first look came to its end."""
    return Text(f"looking at link {sentence(link)}", "dim")


@stacked
def status_table(seen: StatusNow) -> Iterator[RenderableType]:
    """Go or no-go, blockers, RPO, replication, groups."""
    if network := network_suspected(seen.planned.blockers):
        yield Text(sentence(network), "bold red")
    yield _answer("planned failover", seen.planned)
    lost = f"if {sentence(seen.source)} were lost now: {sentence(rpo_words(seen.rpo))}"
    allowed = f"allowed are {seen.allowed.max_rpo_seconds:g} s"
    yield _answer(f"{lost}; {allowed}", seen.unplanned)
    yield Text(f"link {plain(seen.link)}: {plain(seen.source)} -> {plain(seen.target)}", "dim")
    yield from _blockers(seen)
    others, more = told_once(seen.others)
    blockers = (*seen.planned.blockers, *seen.unplanned.blockers)
    told_above = {each.because for each in told_once(blockers)[1]}
    unseen = [each for each in more if each.because not in told_above]
    if others or unseen:
        yield heading("To know of")
        yield from (_finding(each) for each in others[:_OTHERS])
        yield from map(_unseen, unseen)
        if len(others) > _OTHERS:
            yield Text(f"  and {len(others) - _OTHERS:,} more: drctl doctor", "dim")
    yield heading("RPO by topic")
    yield from _topics(seen)
    yield heading("Replication")
    connectors = connector_words(c for _, c in sorted(seen.connectors.items()))
    yield Text(f"  {sentence('; '.join(connectors)) or 'no connector is known'}")
    yield heading("Groups")
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
    planned, unplanned = seen.planned.blockers, seen.unplanned.blockers
    shared = {f.check for f in planned} & {f.check for f in unplanned}
    for title, rows in (
        ("any failover", [f for f in planned if f.check in shared]),
        ("planned", [f for f in planned if f.check not in shared]),
        ("unplanned", [f for f in unplanned if f.check not in shared]),
    ):
        if rows:
            yield heading(f"In the way ({title})")
            told, unseen = told_once(rows)
            for each in told:
                yield _finding(each)
                if each.cure:
                    yield Text(f"{'':14}cure: {sentence(each.cure)}", "dim")
            yield from map(_unseen, unseen)


def _unseen(unseen: Unseen) -> Text:
    return Text(f"  not-checked {sentence(unseen.words)}", "yellow")


def _finding(finding: Finding) -> Text:
    words = sentence(f"{finding.check}: {finding.subject}: {finding.reason}")
    return Text.assemble((f"  {finding.status.value:<11} ", "yellow"), words)


def _topics(seen: StatusNow) -> Iterator[RenderableType]:
    if not seen.topics:
        yield Text(f"  {sentence(seen.rpo.how)}")
        return
    rows = map(_topic, seen.topics[:_TOPICS])
    yield filled(rows, "  topic", *_NUMBERS, "how", numbers=_NUMBERS)
    if len(seen.topics) > _TOPICS:
        yield Text(
            f"  and {len(seen.topics) - _TOPICS:,} topics that are not further behind", "dim"
        )


def _topic(row: TopicRpo) -> tuple[str, ...]:
    rpo = row.rpo
    numbers = (rpo.records, rpo.at_most)
    seconds = "?" if rpo.seconds is None else f"{rpo.seconds:,.1f}"
    how = sentence(rpo.how) + (f"; {row.unknown} partitions unknown" if row.unknown else "")
    counts = ("?" if n is None else f"{n:,}" for n in numbers)
    return (f"  {plain(row.topic)}", *counts, seconds, how)
