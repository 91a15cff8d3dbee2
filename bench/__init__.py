"""Benchmarks: drctl beside named baselines, on real brokers, in one run (`make bench`).

Both clusters are a lab's, started for the run and taken down at its end; what is compared is
measured in turns. A time counts only where the answer was right. Results go to stdout as a table
and to `bench/results/` as JSON.

- help: `drctl --help` beside a trivial Typer program, with and without rich.
- warm: one Spark session. Reading both sides by Spark's default Kafka source, `exceptAll`, and
  digest, suspects and comparison as `drctl gap` does them.
- cold: `drctl gap` as a process, from its start to its end.
- estimate, scopes: what does not read everything: very many partitions, tails, ledgers.
- cost: a model of what full comparisons take, fitted to measurements.
- memory: the high-water mark (VmHWM) of that process's JVM; Linux only.
- offsets: groups translated and applied, beside Kafka's own tool and MirrorMaker 2's library.
- tracking: passes of `drctl offsets track`.
- dump: `drctl dump-consumer-timestamps` on millions of records.
- rto: for how long writes are refused during a failover, by an application's own log.
- rereads: records that groups read again behind a real MirrorMaker 2, by who translates.
"""
