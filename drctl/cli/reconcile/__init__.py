"""`drctl reconcile`: the command, what it opens and what it prints."""
