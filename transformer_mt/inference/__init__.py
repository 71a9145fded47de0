"""Everything that reads a model directory: search, translation, scores, explanations."""
