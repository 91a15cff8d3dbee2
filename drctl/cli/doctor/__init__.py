"""`drctl doctor`: the command, what it opens and what it prints."""
