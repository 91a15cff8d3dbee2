"""Gap analysis: finds the source records that are not on the target."""
