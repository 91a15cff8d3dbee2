"""The one error of all codecs."""

_SHOWN = 64


class Undecodable(ValueError):
    """These bytes are not of this format.

    Attributes:
        reason: what is wrong with them.
        hex: all of them; empty where there are none.
    """

    def __init__(self, format_name: str, reason: str, data: bytes | None) -> None:
        self.reason = f"{format_name}: {reason}"
        self.hex = (data or b"").hex()
        shown = self.hex[:_SHOWN] + ("..." if len(self.hex) > _SHOWN else "")
        super().__init__(f"{self.reason}: {shown or 'no bytes'}")
