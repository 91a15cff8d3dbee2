"""A failover rehearsal (drill) on its own topics and groups: resources, measures and checks."""
