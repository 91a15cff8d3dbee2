"""What to do after a gap analysis, most urgent first: the page and the terminal say the same."""

from dataclasses import dataclass

from drctl.model.gap import GapResult
from drctl.model.pasting import quote
from drctl.report.gap_lines import order_lines
from drctl.report.gap_words import oldest
from drctl.report.printable import age, number, plain, plural

PAGE = "gap.html"
DOCUMENT = "gap.json"


@dataclass(frozen=True, slots=True)
class Step:
    """Something to do, or to leave alone, and why."""

    what: str
    why: str


def next_steps(result: GapResult) -> tuple[Step, ...]:
    """What to do now, most urgent first."""
    steps: list[Step] = []
    if not result.complete:
        steps.append(_ask_again(result))
    if result.totals.unreplicated:
        steps += [_replication(result), _keep_primary(result), _retention(result)]
        steps += [_keep_files(result), _decide(result)]
    elif not result.complete:
        steps.append(_keep_primary(result))
    else:
        steps.append(_nothing(result))
    if result.complete and result.totals.only_on_target and not result.totals.unreplicated:
        steps.append(_only_on_target(result))
    return tuple(steps)


def _ask_again(result: GapResult) -> Step:
    causes = []
    if result.not_compared:
        causes.append("clear the reasons listed under not compared")
    if result.totals.undecided:
        causes.append(f"let open transactions on {plain(result.source)} end")
    what = " and ".join(causes)
    return Step(
        f"{what[0].upper()}{what[1:]}, then run drctl gap again.",
        "Until it ends with exit code 0 or 1 nobody can say that nothing else is missing.",
    )


def _replication(result: GapResult) -> Step:
    source, target = plain(result.source), plain(result.target)
    if result.totals.only_on_target or result.order.conflicting:
        return Step(
            f"Do not start the old replication from {source} to {target} while applications write"
            f" to {target}.",
            "It would go on where it stopped and append what it had not copied behind newer "
            f"records of {target}.",
        )
    return Step(
        f"Find out whether replication from {source} to {target} still runs before you act.",
        f"No record was found that only {target} holds, so this may be plain lag: then let it "
        "catch up and run drctl gap again.",
    )


def _keep_primary(result: GapResult) -> Step:
    what = "The missing records" if result.totals.unreplicated else "Records of unknown fate"
    return Step(
        f"Do not truncate, re-create or mirror over topics of {plain(result.source)}.",
        f"{what} may be nowhere else.",
    )


def _retention(result: GapResult) -> Step:
    old = age(oldest(result), result.started)
    what = f"; the oldest missing record is {old}" if old else ""
    return Step(
        f"Look at the retention of these topics on {plain(result.source)}.",
        f"It goes on deleting while you decide{what}.",
    )


def _keep_files(result: GapResult) -> Step:
    return Step(
        f"Keep {plain(result.out)}.",
        f"Its folder {plain(result.records_path)} (Parquet) has a row for every missing record: "
        "topic, partition, offset, timestamp, key, size, order; the values are only on "
        f"{plain(result.source)}. Its {DOCUMENT} has the numbers of every partition.",
    )


def _decide(result: GapResult) -> Step:
    said = [f"{number(line.count)} {line.name}" for line in order_lines(result) if line.count]
    link, out = (quote(each) for each in (result.link, result.out))
    return Step(
        "Decide what to bring over, by what a copy would do to order.",
        f"{', '.join(said)}: what that means stands under order. `drctl reconcile {out} --policy"
        f" copy` shows what bringing them over would do, and what was decided before; where clients"
        f" are on {plain(result.target)} by now, `drctl failback --check-order --link {link}` says"
        " what comes first. Neither writes anything.",
    )


def _nothing(result: GapResult) -> Step:
    return Step(
        "Nothing has to be brought over.",
        f"This is about what {plain(result.source)} held when its offsets were frozen. If it has "
        "taken writes since, run drctl gap again.",
    )


def _only_on_target(result: GapResult) -> Step:
    count, source = result.totals.only_on_target, plain(result.source)
    return Step(
        f"Going back to {source} needs {plural(count, 'record')} that only "
        f"{plain(result.target)} holds.",
        f"They have to reach {source} before applications return to it.",
    )
