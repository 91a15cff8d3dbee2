"""Where groups go on reading on the target: one method of finding that a file."""
