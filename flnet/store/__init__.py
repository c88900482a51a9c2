"""What a node remembers: SQLite and files, and a twin in memory."""
