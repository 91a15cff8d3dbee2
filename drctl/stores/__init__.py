"""What drctl keeps on this machine: journals, ledgers, results as Parquet, temporary data."""
