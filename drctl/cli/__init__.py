"""The command line: parse, call, show, return a code."""
