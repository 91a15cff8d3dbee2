"""The folder that a gap analysis leaves: records first, `gap.json` last.

Everything is made in a hidden folder beside its final place and moved when it is whole, so that a
run that was interrupted leaves nothing that looks like a result.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drctl.config.secret import masked_document
from drctl.model.errors import Refused, Unknown
from drctl.model.gap import GapResult
from drctl.views.files import write_whole
from drctl.views.gap_page import render
from drctl.views.gap_text import DOCUMENT, PAGE

RECORDS = "records"
OTHERS = "others"
INVERSIONS = "inversions"
_PARTIAL = ".partial"
_OURS = frozenset({DOCUMENT, PAGE, RECORDS, OTHERS, INVERSIONS, _PARTIAL})


@contextmanager
def prepared(out: Path) -> Iterator[Path]:
    """A folder to work in, inside `out`; removed at the end, whatever happens.

    Raises:
        Refused: `out` holds something that is not a gap analysis.
        Unknown: `out` cannot be written to.
    """
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        foreign = sorted(p.name for p in out.iterdir() if p.name not in _OURS)
    except OSError as error:
        raise Unknown(f"cannot write to {out}: {error.strerror}", "choose another --out") from None
    if foreign:
        raise Refused(
            f"{out} holds {foreign[0]!r}, which is not of a gap analysis",
            "choose an empty folder with --out",
        )
    work = out / _PARTIAL
    # An earlier result goes, its gap.json first.
    for name in (DOCUMENT, PAGE):
        (out / name).unlink(missing_ok=True)
    for name in (RECORDS, OTHERS, INVERSIONS, _PARTIAL):
        shutil.rmtree(out / name, ignore_errors=True)
    try:
        work.mkdir(mode=0o700)
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def publish(result: GapResult, work: Path, out: Path) -> None:
    """Move what was made in `work` to its place; `gap.json` appears last.

    Raises:
        Unknown: the disk is full, or `out` cannot be written to.
    """
    try:
        (work / PAGE).write_text(render(result), encoding="utf-8")
        document = json.dumps(masked_document(result.to_json()), indent=2, allow_nan=False)
        write_whole(work / DOCUMENT, document + "\n")
        ordered = () if result.inversions is None else (INVERSIONS,)
        for name in (RECORDS, OTHERS, *ordered, PAGE, DOCUMENT):
            (work / name).rename(out / name)
    except OSError as error:
        raise Unknown(
            f"the result cannot be written to {out}: {error.strerror}",
            "nothing there is a whole result; free space or choose another --out, and run again",
        ) from error
