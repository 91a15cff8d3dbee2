"""Runbooks: YAML that a person can read -> the same plans that the sequences of drctl make."""
