"""Leader elections inside one cluster: who can be elected, what it would lose, and what it lost."""
