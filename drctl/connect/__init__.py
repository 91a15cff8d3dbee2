"""Kafka Connect's REST interface."""
