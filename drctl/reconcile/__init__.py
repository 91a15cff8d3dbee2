"""What becomes of the records that a gap analysis found: decisions, progress, and the run."""
