"""Files with a structure: their text is translated, the rest stays as it is, byte for byte."""
