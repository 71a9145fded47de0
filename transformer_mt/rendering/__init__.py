"""HTML and the style of figures."""
