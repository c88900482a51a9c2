"""The compute queue for heavy work, the training child process, and how trainers are found and loaded."""
