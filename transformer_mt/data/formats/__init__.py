"""Text in any common form, as pairs."""
