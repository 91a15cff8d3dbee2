"""What replicators know of their own progress."""
