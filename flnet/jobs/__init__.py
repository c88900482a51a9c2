"""One job per trainer, and who is in the mesh."""
