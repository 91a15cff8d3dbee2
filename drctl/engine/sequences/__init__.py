"""Which steps, in which order, from what was seen."""
