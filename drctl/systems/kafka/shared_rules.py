"""Rules of fences that other links may need, too: kept until nobody does.

Signs are rules beside the rules (see `drctl.model.fencing.sign`). Whoever sets a fence signs before
it denies; whoever lifts one takes its sign away before it looks for those of others. So two that
lift at once leave nothing; and one that lifts while another sets leaves too little at worst, which
the proof of the fence finds.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from drctl.model.acls import Acl
from drctl.model.fencing import AclReader, AclWriter, resting, sign
from drctl.model.topology import Unavailable


@dataclass(frozen=True, slots=True)
class SharedRules:
    """Implements `AclWriter` of `drctl.model.fencing` for the fences of one link.

    Attributes:
        link: its name.
    """

    writer: AclWriter
    reader: AclReader
    link: str

    def deny(self, rules: Collection[Acl]) -> Mapping[Acl, Unavailable | None]:
        """Add these, signed; by rule None where it is there now, or why it is not."""
        signs = {rule: sign(rule, self.link) for rule in rules}
        answers = self.writer.deny((*signs.values(), *rules))
        return {rule: answers[rule] or answers[signs[rule]] for rule in rules}

    def restore(self, rules: Collection[Acl]) -> Mapping[Acl, Unavailable | None]:
        """Remove those of these on which no other link's fence rests; by rule why one stays."""
        signs = {rule: sign(rule, self.link) for rule in rules}
        unsigned = self.writer.restore(tuple(signs.values()))
        present = self.reader.acls()
        if isinstance(present, Unavailable):
            # A fence that is lifted from under another link is worse than one that stays.
            unknown = f"whether another link needs it is not known: {present.reason}"
            return dict.fromkeys(rules, Unavailable(unknown))
        others = resting(present.rules, self.link)
        kept = {
            rule: Unavailable(f"the fence of link {others[rule].link} rests on it")
            for rule in rules
            if rule in others
        }
        gone = self.writer.restore([rule for rule in rules if rule not in kept])
        return {**{rule: why or unsigned[signs[rule]] for rule, why in gone.items()}, **kept}
