"""Endpoints that direct clients to a cluster: one module per kind, with reader and writer."""
