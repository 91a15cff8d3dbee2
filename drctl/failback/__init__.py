"""Failback: which of its steps have happened, as seen on the clusters, and what is next."""
