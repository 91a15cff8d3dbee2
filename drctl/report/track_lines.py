"""A pass of `drctl offsets track` in a few lines of text."""

from collections.abc import Iterator

from drctl.offsets.anchor_log import ANCHORS_TOPIC
from drctl.offsets.sight import Problem
from drctl.offsets.tracked import Tracked
from drctl.offsets.tracking import Look
from drctl.report.printable import duration, number, plain, plural, sentence, utc

_SHOWN = 20


def pass_line(result: Tracked) -> str:
    """One line, where many passes follow each other."""
    look = result.look
    at = utc(result.began_ms)
    if look is None or result.failed is not None:
        return f"{at}  failed; {known(result)}"
    line = f"{at}  {_seen(look)}: {_done(look)}; {result.seconds:.2f} s"
    return line if result.complete else f"{line}; {plural(len(look.problems), 'problem')}"


def pass_lines(result: Tracked, look: Look, target: str, command: str) -> Iterator[str]:
    """What a single pass found, and did or would do.

    Args:
        command: that does it.
    """
    yield f"{_seen(look)}, looked at in {result.seconds:.2f} s"
    if result.executed:
        yield f"{_done(look)}; in topic {ANCHORS_TOPIC} of {plain(target)}, and read back"
    else:
        if not result.topic_existed:
            yield f"topic {ANCHORS_TOPIC} of {plain(target)} would be made"
        yield f"{number(look.moved)} moved: {plural(look.noted, 'anchor')} would be written, " + (
            f"{number(len(look.forgotten))} deleted"
        )
    if look.bare:
        held = "has no consumed record left" if look.bare == 1 else "have no consumed record left"
        yield f"{plural(look.bare, 'position')} {held} to know it by on another cluster"
    if look.astray:
        yield f"{plural(look.astray, 'anchor')} of positions that could not be seen: kept, aging"
    yield from problem_lines(look)
    if not result.executed:
        yield known(result)
        yield f"to write them: {command}"


def problem_lines(look: Look) -> Iterator[str]:
    """What could not be looked at."""
    for problem in look.problems[:_SHOWN]:
        yield f"{_where(problem)}: {sentence(problem.reason)}"
    if len(look.problems) > _SHOWN:
        yield f"and {number(len(look.problems) - _SHOWN)} more; --output json has all"


def known(result: Tracked) -> str:
    """How old it is what is noted."""
    if result.known_ms is None or result.age_seconds is None:
        return "nothing is noted yet"
    age = duration(result.age_seconds)
    return f"what is noted is true as of {utc(result.known_ms)} UTC, {age} ago"


def _seen(look: Look) -> str:
    return f"{plural(look.groups, 'group')} with {plural(look.positions, 'position')}"


def _done(look: Look) -> str:
    return (
        f"{number(look.moved)} moved, {number(look.noted)} noted, "
        f"{number(len(look.forgotten))} forgotten"
    )


def _where(problem: Problem) -> str:
    group = f"group {plain(problem.group)}"
    return f"{group} in {plain(problem.topic)}-{problem.partition}" if problem.topic else group
