"""`drctl dump-consumer-timestamps`: the command, what it opens and what it prints."""
