"""One folder per port; folders never import each other."""
