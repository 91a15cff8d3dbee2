"""The output directory of a gap analysis: records first, `gap.json` last.

Files are written to a hidden work directory and moved when complete, so that an interrupted run
leaves nothing that looks like a result.
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
    """Provide a work directory inside `out`; it is always removed at the end.

    If `out` is new and there is no result, for example after Ctrl-C, it is removed, too.

    Raises:
        Refused: `out` contains files that are not from a gap analysis.
        Unknown: `out` is not writable.
    """
    try:
        new = not out.exists()
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        foreign = sorted(p.name for p in out.iterdir() if p.name not in _OURS)
    except OSError as error:
        raise Unknown(
            f"cannot write to {out}: {error.strerror}", "choose another directory with --out"
        ) from None
    if foreign:
        raise Refused(
            f"{out} contains {foreign[0]!r}, which is not part of a gap result",
            "choose an empty directory with --out",
        )
    work = out / _PARTIAL
    # Remove an earlier result, its gap.json first.
    for name in (DOCUMENT, PAGE):
        (out / name).unlink(missing_ok=True)
    for name in (RECORDS, OTHERS, INVERSIONS, _PARTIAL):
        shutil.rmtree(out / name, ignore_errors=True)
    try:
        work.mkdir(mode=0o700)
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if new and out.is_dir() and not any(out.iterdir()):
            out.rmdir()


def publish(result: GapResult, work: Path, out: Path) -> None:
    """Move the files from `work` to `out`; `gap.json` appears last.

    Raises:
        Unknown: the disk is full, or `out` is not writable.
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
            f"cannot write the result to {out}: {error.strerror}",
            "the result there is incomplete: free disk space or choose another --out",
        ) from error
