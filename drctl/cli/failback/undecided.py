"""What a run that was killed left open on the survivor: brokers end it, and are waited for.

Before that, nobody can say which records count there, and no comparison is complete.
"""

import time
from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.cli.notices import notices
from drctl.cli.runs.guarding import logs_of_copies

if TYPE_CHECKING:
    from drctl.config.link import Link

_BROKERS_LOOK_EVERY_S = 10.0
"""transaction.abort.timed.out.transaction.cleanup.interval.ms"""

_PAUSE_S = 0.5


def await_decided(link: "Link") -> None:
    """Wait until all that has come to a link's target by now counts, or does not.

    For as long as a transaction of drctl may live; what is open then is somebody else's, and the
    comparison that follows says of it that it could not be read.

    Raises:
        Unreachable: the target did not answer.
    """
    from drctl.systems.kafka.deadline import Deadline
    from drctl.systems.kafka.transactions import LIFETIME_S

    deadline = Deadline.after(LIFETIME_S + 2 * _BROKERS_LOOK_EVERY_S)
    with (
        wiring.open_reader(link.target, link.target_config) as target,
        notices().task("looking for open transactions") as task,
    ):
        wanted = {place: log.end for place, log in logs_of_copies(link, target).items()}
        while not deadline.expired:
            now = logs_of_copies(link, target)
            # One that cannot be read now is not known to be decided.
            behind = [p for p, end in wanted.items() if p not in now or now[p].last_stable < end]
            if not behind:
                return
            what = "a transaction is open in" if behind[0] in now else "nobody answers for"
            left = f"waiting for its brokers, {deadline.remaining:.0f} s at most"
            task.update(description=f"{what} {behind[0]} of {link.target}: {left}")
            time.sleep(_PAUSE_S)
