"""What a person should look at in a source as a whole."""
