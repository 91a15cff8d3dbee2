"""One observer a step of the failback table: from facts to done, not done or unknown, and why."""
