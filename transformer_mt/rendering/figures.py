"""The style of all figures: fonts, colours, size; matplotlib is imported when one is drawn."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from transformer_mt.system.output import writing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FONT_PATH = Path(__file__).parent / "fonts" / "tmt-cjk.otf"
# Families that systems install, for characters beyond the shipped subset (Hangul, rare hanzi).
SYSTEM_FAMILIES = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC",
    "WenQuanYi Zen Hei", "PingFang SC", "Hiragino Sans GB", "Microsoft YaHei", "SimHei",
    "Arial Unicode MS",
)  # fmt: skip
DPI = 150

INK, MUTED, EDGE, GRID = "#1f2933", "#6b7785", "#b8c1cc", "#e3e8ee"


@cache
def use_fonts() -> tuple[str, ...]:
    """Register the shipped font; the families in which a character is looked up, in their order.

    The shipped font first, so that figures look the same everywhere; then matplotlib's own; then
    the first system family that is installed.
    """
    from matplotlib import font_manager

    font_manager.fontManager.addfont(FONT_PATH)
    shipped = font_manager.FontProperties(fname=FONT_PATH).get_name()
    installed = set(font_manager.get_font_names())
    system = [family for family in SYSTEM_FAMILIES if family in installed]
    return (shipped, "DejaVu Sans", *system[:1])


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw and save inside this context: fonts, colours, and no `$…$` formulas in labels."""
    import matplotlib

    with matplotlib.rc_context(
        {
            "font.family": list(use_fonts()),
            "font.size": 9,
            "text.parse_math": False,
            "text.color": INK,
            "axes.edgecolor": EDGE,
            "axes.labelcolor": MUTED,
            "xtick.color": MUTED,
            "ytick.color": MUTED,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    ):
        yield


def new_figure(width: float, height: float) -> "Figure":
    """An empty white figure, sizes in inches, independent of pyplot and of any display."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=DPI, facecolor="white")


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a PNG, whole or not at all."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with writing(path) as temporary_path:
        FigureCanvasAgg(figure).print_png(temporary_path)  # `savefig` would draw it twice
