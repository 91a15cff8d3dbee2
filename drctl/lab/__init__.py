"""Two real local clusters with MirrorMaker 2 on Connect, for demos, drills and tests."""
