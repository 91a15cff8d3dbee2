"""Which steps, in which order: failover, failback, rebuild, repair."""
