"""The journals of runs, on this machine."""
