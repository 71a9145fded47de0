"""Plain text: every line with words in it is a segment."""

from transformer_mt.translation.documents.document import Document, Segment, text_parts


def read_text(text: str) -> Document:
    parts: list[str | Segment] = []
    for line in text.split("\n"):
        parts += [*text_parts(line), "\n"]
    return Document(parts[:-1])
