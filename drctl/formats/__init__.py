"""Codecs of the records in topics, one module per format; no I/O."""
