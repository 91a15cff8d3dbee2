"""Everything outside drctl, one room each; the rooms do not know each other."""
