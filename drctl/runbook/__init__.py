"""Runbooks: readable YAML files, from which drctl builds plans like those of its own commands."""
