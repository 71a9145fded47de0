"""Names and files → clean pairs of sentences, and a report on them."""
