"""Connectors in trouble: what their traces say, when to try again, and where they stand."""
