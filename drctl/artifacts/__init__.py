"""Java archives from Maven repositories, checked against committed sums."""
