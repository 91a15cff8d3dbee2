"""Carries a plan out: checks again, writes the journal, commits, reads back.

Groups are taken in batches. Right before a batch is committed, its groups are described and their
offsets read once more: a group may have become active since the plan.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from drctl.model.errors import Unreachable
from drctl.model.groups import Committed, Group, Positions
from drctl.model.journal import RunJournal
from drctl.model.ports import GroupReader, GroupWriter
from drctl.model.topology import TopicPartition, Unavailable
from drctl.offsets import journal
from drctl.offsets.applying import Action, ApplyPlan, Guard, Line, members_in_words
from drctl.offsets.journal import ApplyResult, LineResult, Outcome, left_alone


@dataclass(frozen=True, slots=True)
class Unanswered(Unavailable):
    """No answer came after a write was sent: it may have happened, or may still happen."""


@dataclass(frozen=True, slots=True)
class Occupied(Unavailable):
    """The coordinator refused: the group has members."""


BATCH = 250
"""Groups that are checked, written and read back together."""

_NOT_ASKED = Unanswered("it was not read back")

Answers = Mapping[str, Mapping[TopicPartition, Unavailable | None]]
Read = Mapping[str, Positions | Unavailable]


@dataclass(frozen=True, slots=True)
class Execution:
    """Writes the positions of one plan.

    Attributes:
        undone: the run that the plan rolls back; empty where it rolls back none.
        progress: told how many groups of how many are done.
    """

    reader: GroupReader
    writer: GroupWriter
    journal: RunJournal
    now: Callable[[], datetime]
    progress: Callable[[int, int], None]
    undone: str = ""

    def run(self, plan: ApplyPlan) -> ApplyResult:
        """Carry it out; whatever happens, the journal holds every offset that may have changed.

        Raises:
            Unreachable: the cluster did not answer before anything was written.
            Unknown: the journal cannot be written.
        """
        began = self.now()
        self.journal.append([journal.began(self.journal.run, plan, began, self.undone)])
        written = {(r.line.group, r.line.partition): r for r in self._batches(plan.writes)}
        results = tuple(
            written.get((line.group, line.partition)) or left_alone(line) for line in plan.lines
        )
        ended = self.now()
        seconds = (ended - began).total_seconds()
        result = ApplyResult(plan, self.journal.run, self.journal.where, seconds, results)
        self.journal.append([journal.ended(result.status, ended)])
        return result

    def _batches(self, lines: Sequence[Line]) -> Iterator[LineResult]:
        by_group = [list(group) for _, group in groupby(lines, key=lambda line: line.group)]
        silent = ""
        for start in range(0, len(by_group), BATCH):
            self.progress(start, len(by_group))
            batch = [line for group in by_group[start : start + BATCH] for line in group]
            if silent:
                yield from _not_tried(batch, silent)
                continue
            try:
                yield from self._batch(batch)
            except Unreachable as error:
                if not start:
                    raise
                # The next batch would wait as long, also for nothing.
                silent = error.message
                yield from _not_tried(batch, silent)

    def _batch(self, lines: Sequence[Line]) -> list[LineResult]:
        """One batch.

        Raises:
            Unreachable: the cluster did not answer; nothing of this batch was sent.
        """
        names = tuple(dict.fromkeys(line.group for line in lines))
        groups, before = self.reader.described(names), self.reader.committed(names)
        due, results = [], []
        for line in lines:
            refused = _refusal(line, groups[line.group], before[line.group])
            if refused is None:
                due.append(line)
            else:
                results.append(refused)
        if due:
            self.journal.append(journal.intents(due))
            answers = self._write(due)
            names = tuple(dict.fromkeys(line.group for line in due))
            back: Read
            try:
                back = self.reader.committed(names)
            except Unreachable as error:
                back = dict.fromkeys(names, Unanswered(error.message))
            results += [_judged(line, answers, back) for line in due]
            self.journal.append(journal.outcomes(results))
        return results

    def _write(self, lines: Sequence[Line]) -> Answers:
        wanted: dict[str, dict[TopicPartition, Committed]] = {}
        unwanted: dict[str, list[TopicPartition]] = {}
        for line in lines:
            if line.to is not None:
                wanted.setdefault(line.group, {})[line.partition] = line.to
            else:
                unwanted.setdefault(line.group, []).append(line.partition)
        committed = self.writer.commit(wanted) if wanted else {}
        deleted = self.writer.delete(unwanted) if unwanted else {}
        return {
            group: {**committed.get(group, {}), **deleted.get(group, {})}
            for group in (*wanted, *unwanted)
        }


def _refusal(
    line: Line, group: Group | Unavailable, positions: Positions | Unavailable
) -> LineResult | None:
    """Why the line is not written after all; None where it is."""
    if isinstance(group, Unavailable):
        return LineResult(line, Outcome.FAILED, line.before, group.reason)
    if isinstance(positions, Unavailable):
        return LineResult(line, Outcome.FAILED, line.before, positions.reason)
    now = positions.get(line.partition)
    if group.active:
        reason = f"somebody came to read in the group: {members_in_words(group)}"
        return _refused(line, Guard.GROUP_ACTIVE, now, reason)
    if now != line.before:
        stands = "no position" if now is None else now.offset
        reason = f"it has been moved since the plan was made: {stands} now"
        return _refused(line, Guard.CHANGED_SINCE, now, reason)
    return None


def _refused(line: Line, guard: Guard, now: Committed | None, reason: str) -> LineResult:
    refused = replace(line, action=Action.REFUSED, guard=guard, reason=reason)
    return LineResult(refused, Outcome.REFUSED, now, reason)


def _judged(line: Line, answers: Answers, back: Read) -> LineResult:
    """What was answered, compared with what is committed."""
    answer = answers[line.group].get(line.partition, _NOT_ASKED)
    positions = back.get(line.group, _NOT_ASKED)
    if isinstance(positions, Unavailable):
        return _unread(line, answer, positions)
    now = positions.get(line.partition)
    if now == line.to:
        done = Outcome.DELETED if line.to is None else Outcome.COMMITTED
        return LineResult(line, done, now)
    if isinstance(answer, Unanswered):
        return LineResult(line, Outcome.UNKNOWN, now, f"no answer: {answer.reason}")
    if isinstance(answer, Occupied):
        return _refused(line, Guard.GROUP_ACTIVE, now, answer.reason)
    if isinstance(answer, Unavailable):
        return LineResult(line, Outcome.FAILED, now, answer.reason)
    stands = "no position" if now is None else f"position {now.offset}"
    return LineResult(line, Outcome.FAILED, now, f"written, but {stands} was read back")


def _unread(line: Line, answer: Unavailable | None, back: Unavailable) -> LineResult:
    if isinstance(answer, Unavailable) and not isinstance(answer, Unanswered):
        return LineResult(line, Outcome.FAILED, None, answer.reason)
    said = f"no answer: {answer.reason}" if answer else f"written, not read back: {back.reason}"
    return LineResult(line, Outcome.UNKNOWN, None, said)


def _not_tried(lines: Iterable[Line], why: str) -> Iterator[LineResult]:
    for line in lines:
        yield LineResult(line, Outcome.FAILED, line.before, f"not tried: {why}")
