"""Files that hold secrets: whether anybody else on this machine may read them."""

import stat
from collections.abc import Iterator

from drctl.checks.check import Family, NotObserved, Verdict, check, fail, ok, seen, warn
from drctl.checks.observed import Observed
from drctl.checks.wording import listed, several
from drctl.model.finding import Status
from drctl.model.pasting import arguments

_READABLE = stat.S_IRGRP | stat.S_IROTH
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH


@check(
    "secret-files",
    Family.SECRETS,
    "files that hold passwords and keys, and drctl.yaml, are the owner's alone",
    Status.WARN,
    Status.FAIL,
)
def permissions(observed: Observed) -> Iterator[Verdict]:
    """Whether another user can read a password, or write drctl.yaml."""
    subject, cure = "files with secrets", "look at them with `ls -l`"
    files = seen(observed.survey.files, subject, "which there are is", cure)
    known = {each.path: each for each in files}
    missing = [each.path for each in known.values() if each.mode is None]
    writable = [each for each in known.values() if each.mode and each.mode & _WRITABLE]
    readable = [each for each in known.values() if each.mode and each.mode & _READABLE]
    if writable:
        told = several(f"{each.path} ({each.what}) {each.mode or 0:04o}" for each in writable)
        cost = "another user decides to which cluster drctl sends what, and as whom"
        chmod = f"chmod go-w {arguments(*(str(each.path) for each in writable))}"
        yield fail(subject, f"{len(writable):,} can be changed by others", told, cost, chmod)
    elif readable:
        told = several(f"{each.path} ({each.what}) {each.mode or 0:04o}" for each in readable)
        cost = "every user of this machine can log in to the clusters"
        chmod = f"chmod go-rwx {arguments(*(str(each.path) for each in readable))}"
        yield warn(subject, f"{len(readable):,} can be read by others", told, cost, chmod)
    elif missing:
        raise NotObserved(subject, f"{len(missing):,} are not there: {listed(missing)}", cure)
    else:
        yield ok(subject, "only their owner may read them", f"{len(known):,} files")
