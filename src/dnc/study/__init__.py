"""Studies: the same training with different settings and seeds, and what comes of it."""

from dnc.study.definition import Run, Study, shipped_studies, study_path
from dnc.study.paper import MadeBy, PaperResult, paper_map, paper_results
from dnc.study.reporting import write_study
from dnc.study.running import Failure, Progress, default_parallel, run_missing
from dnc.study.store import Place, Source, places
from dnc.study.summary import (
    Estimate,
    RowSummary,
    compared_images,
    markdown,
    summarised,
    write_csv,
)

__all__ = [
    "Estimate",
    "Failure",
    "MadeBy",
    "PaperResult",
    "Place",
    "Progress",
    "RowSummary",
    "Run",
    "Source",
    "Study",
    "compared_images",
    "default_parallel",
    "markdown",
    "paper_map",
    "paper_results",
    "places",
    "run_missing",
    "shipped_studies",
    "study_path",
    "summarised",
    "write_csv",
    "write_study",
]
