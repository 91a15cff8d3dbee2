"""`drctl elect`: the command, what it opens and what it prints."""
