"""`drctl drill`: the command, what it opens and what it prints."""
