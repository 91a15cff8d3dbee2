"""Benchmarks: drctl beside named baselines, on real brokers, in one run (`make bench`)."""
