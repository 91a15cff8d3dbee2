"""Numbers for those who watch: served over HTTP."""
