"""Looks at one thing each, through ports, and says what was seen."""
