"""Results as documents for people."""
