"""Policy trees of small depth: readable columns, the exact search for the best tree, and the tree."""

DEPTH = 2
