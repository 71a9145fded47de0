"""Text in any common form → pairs."""
