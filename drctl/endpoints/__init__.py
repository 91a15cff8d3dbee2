"""What tells clients where their cluster is; one module a kind, each with a reader and a writer."""
