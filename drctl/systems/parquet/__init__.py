"""Parquet files, written by this process."""
