"""What is judged: pure functions from what was observed to findings.

The rows of `doctor` and the guards of a failover are the same functions; `registry` has them all.
"""
