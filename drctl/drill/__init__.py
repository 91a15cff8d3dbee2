"""A rehearsal of a failover on topics and groups of its own: what is made, measured and proven."""
