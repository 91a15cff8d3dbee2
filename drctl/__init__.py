"""Disaster recovery for Kafka clusters: find, prove and bring back what was lost."""
