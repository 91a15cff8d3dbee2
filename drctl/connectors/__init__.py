"""Connectors in trouble: what their stack traces say, when to try again, and where they stand."""
