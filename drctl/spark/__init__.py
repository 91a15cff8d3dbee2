"""The distributed comparison as a Spark application."""
