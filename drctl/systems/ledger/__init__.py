"""Where ledgers are kept."""
