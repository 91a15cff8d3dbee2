"""Disaster recovery for Kafka clusters: failover, failback, offset translation, gap analysis."""
