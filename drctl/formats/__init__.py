"""What stands in topics, one format a module: pure codecs."""
