"""The machine under tmt: files, locks, the terminal. It knows nothing of translation."""
