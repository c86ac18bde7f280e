"""What rules are, how they are chosen, and where their findings go: for tables of every kind."""
