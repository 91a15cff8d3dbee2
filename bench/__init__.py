"""Benchmarks of drctl and named baselines on real brokers, in one run (`make bench`).

Both clusters belong to a lab, which is started for the run and removed at its end. Whatever is
compared is measured in turns. A time counts only if the result was correct. Results go to stdout as
a table and to `bench/results/` as JSON.

- help: `drctl --help`, compared with a trivial Typer program, with and without rich.
- warm: one Spark session: reading both sides with Spark's default Kafka source, `exceptAll`, and
  digests, suspects and comparison as in `drctl gap`.
- cold: `drctl gap` as a process, from start to end.
- wide: the same with very many partitions, compared with the same records in four.
- estimate, scopes: scopes that do not read everything: many partitions, tails, ledgers.
- cost: a cost model of full comparisons, fitted to measurements.
- memory: peak memory (VmHWM) of that process's JVM; Linux only.
- offsets: groups translated and applied, compared with Kafka's tool and MirrorMaker 2's library.
- tracking: passes of `drctl offsets track`.
- dump: `drctl dump-consumer-timestamps` on millions of records.
- rto: how long writes are refused during a failover, from an application's log.
- rereads: records that groups read again after a real MirrorMaker 2, by translation method.
"""
