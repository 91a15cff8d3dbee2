"""Observers: each reads one aspect of a failback through ports."""
