"""A user-supplied switch, in its working directory: `to CLUSTER` or `shown`.

The file `led-to` names the cluster of the clients. A switch waits for a file `go`, and adds a line
to the file `switched`.
"""

import os
import sys
from pathlib import Path

from drctl.lab.waiting import Patience

LED_TO, GO, SWITCHED = Path("led-to"), Path("go"), Path("switched")
_MOST_S = 60


def main(word: str, *cluster: str) -> int:
    """Return 0 when it is done or shown."""
    if word == "shown":
        print(LED_TO.read_text(encoding="utf-8"))
        return 0
    if not Patience.of(_MOST_S).wait_until(GO.exists):
        return 1
    with SWITCHED.open("a", encoding="utf-8") as log:
        log.write(f"{cluster[0]}\n")
    # Two processes may switch at once: that of a killed drctl, and that of the resumed one.
    new = Path(f"led-to.{os.getpid()}")
    new.write_text(cluster[0], encoding="utf-8")
    new.replace(LED_TO)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
