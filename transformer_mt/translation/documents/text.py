"""Plain text: every line with words in it is a segment."""

from itertools import chain

from transformer_mt.translation.documents.document import Document
from transformer_mt.translation.documents.inline import Syntax, text_parts


def read_text(text: str) -> Document:
    parts = ([*text_parts(line, Syntax()), "\n"] for line in text.split("\n"))
    return Document(list(chain.from_iterable(parts))[:-1])
