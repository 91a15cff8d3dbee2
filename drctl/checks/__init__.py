"""Checks: pure functions from observed state to findings.

`doctor` and the prechecks of a failover use the same functions; `registry` lists them all.
"""
