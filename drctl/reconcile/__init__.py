"""Reconciles unreplicated records of a gap result: plan, execution, progress."""
