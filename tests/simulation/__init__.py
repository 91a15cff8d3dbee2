"""Deterministic simulation: drctl's commands, engine and steps over one simulated world, by seed.

The world (`world.py`): two clusters of two brokers, MirrorMaker 2 in both directions, endpoints,
producers, and consumers of both group protocols. MirrorMaker 2 lags, stops late, and copies records
again when a worker restarts. ACLs reach the second broker late. Consumers commit later than they
read. Some applications write in transactions; MirrorMaker 2 copies aborted ones or not. The journal
is drctl's own code over a list of records (`journal.py`). `conformance.py` compares all this with
real clusters.

The commands (`commands.py`): an operator types `failover` or `failback`, and then the commands that
the report of the run names. They run from their functions in `drctl.cli` on.

The schedule (`schedule.py`): a planned or unplanned failover, then a failback. The seed decides
what goes wrong at each request (`faults.py`): the process is killed before or after it; the request
is lost, executed without an answer, executed later, or refused; a part or a whole cluster does not
answer for a while; a second drctl wants the link while the first one runs or hangs. The clocks of
operators' machines differ and jump. An operator resumes on another machine until the run has ended,
types the first command again although it has not, and again after it was rolled back.

The invariants (`judging.py`, `process.py`), judged from what applications did, not by asking drctl:

- Each acknowledged record is on the cluster that clients use, unless the run declared its loss.
- No group has committed an offset beyond a record that it never read, unless the run named it.
- No record follows a newer one of its key, except those that drctl copied by policy.
- The journal states only what is so, announces each change before it, and is enough to resume.
- A process that lost the link finishes at most the step that it was in.
- No secret of a connector or of drctl.yaml is in the journal, or in what a command prints.
- The report states where applications can write, and names a command that works.
- Each run ends as done, rolled back or stopped; the next command works, and once nothing goes wrong
  any more, the plan is done.

`python -m tests.simulation --seeds 1000` plays seeds; a failing one prints its trace and the
command that replays it.
"""
