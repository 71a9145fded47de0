"""The commands about several runs: `tmt runs` and `tmt compare`."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from transformer_mt.cli.options import AsJson, say, show
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.terminal import show_folded, terminal_width


def runs(
    directory: Annotated[Path, typer.Argument(help="the folder of the runs")] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """List the runs of a folder, the newest first: state, best score on dev, test scores."""
    from transformer_mt.pipeline.run_list import format_states, run_states

    found = run_states(directory)
    if as_json:
        show(json.dumps([state.to_json() for state in found], ensure_ascii=False, indent=1))
    else:
        show(format_states(found, terminal_width(sys.stdout)))


def compare(
    run_dirs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="the first: baseline")],
    picture: Annotated[
        Path | None, typer.Option("-o", "--out", help="also draw the curves of dev, as a PNG")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs: settings that differ, test scores with their significance, curves."""
    from transformer_mt.pipeline.curves import write_dev_curves
    from transformer_mt.pipeline.records import read_metrics
    from transformer_mt.pipeline.run_comparison import compare_runs, format_run_comparison
    from transformer_mt.pipeline.run_dir import Run
    from transformer_mt.rendering.progress import ShownStages
    from transformer_mt.system.output import check_file_target

    if picture is not None:
        check_file_target(picture)
    with ShownStages() as stages:
        found = compare_runs(run_dirs, stages=stages)
    if as_json:
        show(json.dumps(found.to_json(), ensure_ascii=False, indent=1))
    else:
        width = terminal_width(sys.stdout)
        show_folded(format_run_comparison(found, width))
    if picture is not None:
        metrics = [read_metrics(Run(path).metrics_path) for path in run_dirs]
        write_dev_curves(dict(zip(found.runs, metrics, strict=True)), picture)
        say(tr("curves: {}", picture))
