"""What the steps of a run noted for its report, as far as their journal entries tell.

A journal may be of another version of drctl: what is not there is not told.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from drctl.engine.story import Story, read_story
from drctl.model.plan import Json
from drctl.report.run_course import Course
from drctl.report.run_data import Became, GroupRow, Positions, Unseen, Warned

_UNSEEN = " (not checked)"
"""How preflight ends what it noted of a guard that could not look."""


def mode(story: Story) -> str:
    """Planned or unplanned; empty where the plan does not know it."""
    for step in story.plan.steps:
        if step.kind == "preflight":
            return str(step.settings.get("mode", ""))
    return ""


def cluster_ids(story: Story) -> dict[str, str]:
    """What the clusters call themselves."""
    stock = _intent(story, "take-stock").get("clusters", {})
    return {
        str(name): str(seen["cluster_id"])
        for name, seen in stock.items()
        if isinstance(seen, Mapping) and "cluster_id" in seen
    }


def topics(story: Story) -> tuple[str, ...]:
    """Those of the source that the run moved, as far as a step has noted them."""
    for kind in ("measure-loss", "fence-producers"):
        if named := _intent(story, kind).get("topics"):
            return tuple(map(str, named))
    seen = _intent(story, "take-stock").get("clusters", {}).get(story.plan.source, {})
    ends = seen.get("ends", {}) if isinstance(seen, Mapping) else {}
    return tuple(sorted({str(place).rpartition("-")[0] for place in ends}))


def set_aside(story: Story) -> dict[str, int]:
    """Records that only the returned cluster had and that were not copied, by what became of them.

    A comparison allows for them: they are on the returned cluster alone.
    """
    done = story.facts_by_kind().get("reconcile", {}).get("done", {})
    known = done if isinstance(done, Mapping) else {}
    found = {kind: _count(known.get(kind)) or 0 for kind in ("quarantine", "export", "discard")}
    return {kind: number for kind, number in found.items() if number}


def warned(story: Story) -> tuple[Warned, ...]:
    """What guards said that let the run go on."""
    told = story.facts_by_kind().get("preflight", {}).get("warnings", ())
    return tuple(_warned(each) for each in told)


def _warned(told: Any) -> Warned:
    words = str(told)
    return Warned(words.removesuffix(_UNSEEN), not words.endswith(_UNSEEN))


def unseen(story: Story) -> tuple[Unseen, ...]:
    """What the guards could not look at, by cause."""
    told = story.facts_by_kind().get("preflight", {}).get("unseen", ())
    return tuple(Unseen(each["what"], each["why"], tuple(each["checks"])) for each in told)


def told_shortly(story: Story) -> Story:
    """The same run, in which each step refers to a cause that is told once, by its name."""
    causes = unseen(story)
    if not causes:
        return story
    first, *more = story.entries
    return read_story((first, *(_shortly(entry, causes) for entry in more)))


def _shortly(value: Any, causes: Sequence[Unseen]) -> Any:
    if isinstance(value, str):
        for each in causes:
            value = value.replace(each.why, each.what)
        return value
    if isinstance(value, Mapping):
        return {name: _shortly(each, causes) for name, each in value.items()}
    return [_shortly(each, causes) for each in value] if isinstance(value, list | tuple) else value


def positions(story: Story) -> Positions | None:
    """What was committed for consumers; None where nothing was."""
    facts, intent = story.facts_by_kind().get("commit-offsets"), _intent(story, "commit-offsets")
    if facts is None:
        return None
    counted = Counter(str(line[0]) for line in intent.get("lines", ()))
    rows = [_group(name, count, intent) for name, count in counted.items()]
    rows.sort(key=lambda row: (-(row.rereads_at_most or 0), row.name))
    return Positions(
        _count(facts.get("positions")) or 0,
        _count(facts.get("same")) or 0,
        _count(facts.get("rereads_at_most")),
        tuple(map(str, facts.get("left_out", ()))),
        tuple(rows),
        _count(facts.get("rereads_likely")),
        tuple(map(str, facts.get("without_offset", ()))),
    )


def _group(name: str, count: int, intent: Json) -> GroupRow:
    rereads, likely = intent.get("rereads", {}), intent.get("likely", {})
    evidence, age, only_if = intent.get("rests_on", {}).get(name) or ("", None, "")
    again = _count(rereads.get(name)), _count(likely.get(name))
    # With the source alive there is no condition: its own word counts.
    if not only_if:
        return GroupRow(name, count, *again)
    return GroupRow(name, count, *again, str(evidence), age, str(only_if))


def not_checked(story: Story, course: Course) -> tuple[str, ...]:
    """What nobody looked at, or nobody could."""
    return tuple(_not_checked(story, course))


def _not_checked(story: Story, course: Course) -> Iterator[str]:
    for name in story.facts_by_kind().get("take-stock", {}).get("silent", ()):
        yield f"{name} did not answer before anything was changed"
    yield from (each.words for each in warned(story) if not each.checked)
    unseen = story.facts_by_kind().get("verify-clients", {}).get("not_seen")
    if unseen:
        yield str(unseen)
    for step in story.plan.steps:
        if step.kind == "switch-endpoint" and story.is_done(step.id) and _by_word(step.settings):
            number, kind = step.settings["number"] + 1, step.settings["kind"]
            yield (
                f"whether a client that connects through endpoint {number} ({kind}) is on"
                f" {step.settings['to']}: give it `bootstrap`, and drctl connects through it, too"
            )
    for name, track in course.tracks.items():
        if track.became in (Became.PASSED, Became.UNKNOWN, Became.BEGUN):
            yield f"step {name}: {track.words or 'nobody saw whether it was done'}"


def _by_word(settings: Json) -> bool:
    """Whether an endpoint was only asked where it points; a file says all that there is to know."""
    return settings.get("kind") != "file" and not settings.get("asked", False)


def _intent(story: Story, kind: str) -> Json:
    """The newest of a kind that was not taken back."""
    for step in story.plan.steps:
        if step.kind == kind and (effect := story.effect_of(step.id)):
            return effect.intent
    return {}


def _count(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) else None
