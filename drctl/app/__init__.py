"""The use cases: they open clusters, workers and files, and give the core what it asks for."""
