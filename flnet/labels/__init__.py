"""Label spaces: the classes by which nodes label their rows, and losses for rows of another space."""
