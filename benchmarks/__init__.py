"""What flnet costs, measured side by side with the least that the same work can cost on the same machine."""
