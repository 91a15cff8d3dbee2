"""Which records are not on the other side: identity, classes, ranges, and their reference."""
