"""The stores of a node's state: SQLite and files, and a twin in memory."""
