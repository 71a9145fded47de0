"""What happened to a corpus, for programs and for people."""
