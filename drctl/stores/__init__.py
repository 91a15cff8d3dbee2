"""Local storage: journals, ledgers, Parquet results, temporary data."""
