"""Translates, commits and tracks consumer group offsets; one file per translation method."""
