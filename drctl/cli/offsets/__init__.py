"""`drctl offsets`: the command, what it opens and what it prints."""
