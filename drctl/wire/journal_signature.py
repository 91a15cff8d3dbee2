"""Signatures of journal lines: whoever can write the topic and has no key cannot make up a run.

HMAC-SHA256 over the link's name and the sealed line. The line holds its place: its number, the
digest of the line before it, and through the first `prev` the name of the run. The first line of a
run holds the whole plan, so a signed run is one whose plan, intents and end all come from somebody
who has the key.
"""

import hmac
from hashlib import sha256


def signature(key: bytes, link: str, line: bytes) -> str:
    """Of a sealed line, as it stands in the head of its record."""
    return hmac.new(key, _message(link, line), sha256).hexdigest()


def is_signed(key: bytes, link: str, line: bytes, mac: str) -> bool:
    """Whether somebody with this key has written the line; takes the same time for any answer."""
    wanted = signature(key, link, line).encode()
    return hmac.compare_digest(wanted, mac.encode("utf-8", "surrogatepass"))


def _message(link: str, line: bytes) -> bytes:
    name = link.encode()
    return b"drctl journal\n%d\n%s\n%s" % (len(name), name, line)
