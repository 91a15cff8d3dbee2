"""Leader elections inside one cluster: possible leaders, and expected and measured data loss."""
