"""`drctl failover`, and what failback, resume and runbooks share: how plans are run."""
