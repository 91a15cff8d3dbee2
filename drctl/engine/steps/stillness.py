"""What is asked of a fence that drctl has not set itself: does anything still grow behind it?"""

from drctl.engine.kind import Seen, State
from drctl.engine.ports import Look
from drctl.model.plan import Json

_SHOWN = 5


def still(cluster: str, settle_s: float, topics: list[str], look: Look, held: Seen) -> Seen:
    """The proof of the fence itself, and that the end offsets do not move."""
    if held.state is not State.DONE:
        return held
    # Brokers are asked for no rule: what fences here is not known to them.
    found = look.fence(cluster, settle_s).prove((), topics).stillness
    ends = {str(place): end for place, end in sorted(found.ends.items())}
    facts: Json = {**held.facts, "ends": ends}
    if not found.proven:
        return Seen(State.WAITING, "; ".join(found.doubts[:_SHOWN]), facts, found.doubts)
    words = f"{held.words}; the ends of {len(ends)} partitions stood still for {settle_s:g} s"
    return Seen(State.DONE, words, facts)
