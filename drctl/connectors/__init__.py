"""Failed connectors: diagnosis from stack traces, restarts, remedies, and source offsets."""
