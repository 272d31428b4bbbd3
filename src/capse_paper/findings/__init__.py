"""What the records say beside what the paper prints: rows, claims and targets as plain data."""
