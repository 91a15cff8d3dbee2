"""Java archives from Maven repositories, verified against committed checksums."""
