"""drctl.yaml: its schema, loading with line numbers, and secrets."""
