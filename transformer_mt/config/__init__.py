"""One YAML file per experiment: names, types, ranges and messages of its settings."""
