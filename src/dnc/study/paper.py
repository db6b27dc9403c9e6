"""Every number that the paper's tables report, to stand beside one's own."""

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

from pydantic import Field

from dnc.errors import InvalidStudy
from dnc.training.section import Section


@dataclass(frozen=True)
class PaperResult:
    """A number as the paper prints it.

    Attributes:
        table: where it stands; A for the appendix.
        dataset: the data set.
        split: which of its images.
        method: "softmax", "dnc", or a variant or rival of these.
        architecture: of segmenters the decoder, else the network.
        backbone: the network; DNC- before it where it was trained with sub-centroids.
        metric: what was measured.
        value: the number, mostly in percent.
        printed: the number as it stands there, with its standard deviation if it has one.

    """

    table: str
    dataset: str
    split: str
    method: str
    architecture: str
    backbone: str
    metric: str
    value: float
    printed: str


class PaperRow(Section):
    """Which number of a table stands beside a row of a study."""

    method: str = Field(description="as in the table")
    backbone: str | None = Field(None, description="where the table has several")
    architecture: str | None = Field(None, description="where the table has several")
    dataset: str | None = Field(None, description="if it is not that of the study")
    table: str | None = Field(None, description="if it is not that of the study")


class Published(Section):
    """The numbers of the paper that a study is to be compared with."""

    table: str = Field(description="1 to 5c, or A2 to A11")
    dataset: str = Field(description="as in the table")
    metric: str = Field("top1", description="as in the table")
    also: dict[str, str] = Field(
        {}, description="further metrics of the study, and what the table calls them"
    )
    rows: dict[str, PaperRow] = Field(description="the number beside each row, by its name")

    def result(self, row: str, *, also: str | None = None) -> PaperResult | None:
        """The number that stands beside a row; None for a row that the paper has not.

        Args:
            row: of the study.
            also: the further metric that it is of; None for the one that rows are compared by.

        """
        wanted = self.rows.get(row)
        if wanted is None:
            return None
        tables = {wanted.table or self.table}
        if also is None:
            metric = self.metric
        else:  # a row from another table may have a further metric in this one
            tables, metric = {*tables, self.table}, self.also[also]
        found = [
            result
            for result in paper_results()
            if result.table in tables
            and (result.metric, result.method) == (metric, wanted.method)
            and result.dataset == (wanted.dataset or self.dataset)
            and wanted.backbone in (None, result.backbone)
            and wanted.architecture in (None, result.architecture)
        ]
        if not found and also is not None:  # of some rows the paper has one metric alone
            return None
        if len(found) != 1:
            where = " or ".join(sorted(tables))
            raise InvalidStudy(
                f"Row {row!r}: {len(found)} numbers of the paper fit table {where}, "
                f"{wanted.dataset or self.dataset}, {metric}, {wanted.method}; name one by "
                "its backbone and architecture."
            )
        return found[0]


@dataclass(frozen=True)
class MadeBy:
    """A table or a figure of the paper, and the command that makes it here."""

    item: str
    what: str
    command: str


def paper_map() -> tuple[MadeBy, ...]:
    """Which command makes which table or figure of the paper."""
    text = resources.files("dnc.study").joinpath("paper_map.csv").read_text("utf-8")
    rows = csv.DictReader(text.splitlines())
    return tuple(MadeBy(row["item"], row["what"], row["made by"]) for row in rows)


@cache
def paper_results() -> tuple[PaperResult, ...]:
    """All numbers of all tables."""
    text = resources.files("dnc.study").joinpath("paper.csv").read_text("utf-8")
    return tuple(
        PaperResult(
            table=row["table"],
            dataset=row["dataset"],
            split=row["split"],
            method=row["method"],
            architecture=row["architecture"],
            backbone=row["backbone"],
            metric=row["metric"],
            value=float(row["value"]),
            printed=f"{row['value']} ± {row['std']}" if row["std"] else row["value"],
        )
        for row in csv.DictReader(text.splitlines())
    )
