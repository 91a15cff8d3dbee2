"""What does not fit into memory, on disk for as long as a command runs."""
