"""The distributed scan, as a Spark application of DataFrame expressions."""
