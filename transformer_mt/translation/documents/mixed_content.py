"""Which elements stand within a sentence: those beside text of the element around them."""

import re
from collections import Counter
from collections.abc import Callable, Sequence

_LAST_TAG = re.compile(r"</([^\s/>]+)\s*>\Z")


def beside_text(
    pieces: Sequence[tuple[str, bool]],
    name_of: Callable[[str], str],
    holds_sentences: Callable[[str], bool],
) -> set[int]:
    """Indices of the tags of these elements.

    Args:
        pieces: text and markup of a document, see `parted`. What stands for text counts as markup.
        name_of: of the element that a tag begins or ends; empty: markup that makes no difference.
        holds_sentences: whether an element in one beside text, by the name of the latter, stands
            within its sentence, too.
    """
    parents, names, have_text = [0], [""], [False]  # of elements, in their order; 0: around all
    element_of: dict[int, int] = {}  # of tags
    path, n_open = [0], Counter[str]()
    for index, (piece, is_markup) in enumerate(pieces):
        name = name_of(piece) if is_markup else ""
        if not is_markup:
            have_text[path[-1]] |= bool(piece.strip())
        elif not name:
            continue
        elif piece[1] != "/":
            element_of[index] = len(parents)
            parents.append(path[-1])
            names.append(name)
            have_text.append(False)
            if not _is_whole(piece, name):
                path.append(element_of[index])
                n_open[name] += 1
        elif n_open[name]:
            closed = ""
            while closed != name:  # what was not closed ends with the element around it
                element_of[index] = path.pop()
                closed = names[element_of[index]]
                n_open[closed] -= 1
    inline = [False]
    for parent in parents[1:]:
        inline.append(have_text[parent] or (inline[parent] and holds_sentences(names[parent])))
    return {index for index, element in element_of.items() if inline[element]}


def _is_whole(raw: str, name: str) -> bool:
    """Whether a span that begins with a tag has the end of its element, too."""
    last = _LAST_TAG.search(raw)
    return raw.endswith("/>") or (last is not None and last[1].lower() == name.lower())
