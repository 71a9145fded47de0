"""The page of the demo's model as it is today, around the model that it holds.

python scripts/figures/demo_page.py
"""

import json
import re
from html import unescape
from pathlib import Path

from transformer_mt.export.html import element, write_page
from transformer_mt.text.languages import is_unspaced

DEMO = Path(__file__).parents[2] / "docs/demo/translator.html"


def renew(page: Path, into: Path) -> None:
    """Write the page of today with the model, the weights and the example of `page`."""
    text = page.read_text(encoding="utf-8")
    example = re.search(r"<textarea[^>]*>(.*?)</textarea>", text, re.DOTALL)
    assert example is not None
    model = json.loads(element(text, "model"))
    for side, code in (("src", model["from"]), ("tgt", model["to"])):  # the page asks it for more
        model["rules"][side]["unspaced"] = is_unspaced(code)
    write_page(into, model, element(text, "weights"), unescape(example[1]))


if __name__ == "__main__":
    renew(DEMO, DEMO)
