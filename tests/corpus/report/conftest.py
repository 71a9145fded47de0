"""A report of which every field holds something."""

from collections.abc import Callable

import pytest

from transformer_mt.config.data import Languages
from transformer_mt.corpus.report.profile import VocabularyReport, profile
from transformer_mt.corpus.report.report import (
    CorpusReport,
    PartReport,
    RuleReport,
    Sample,
    SourceReport,
)

ZH_EN = Languages(src="zh", tgt="en")


@pytest.fixture(scope="session")
def full_report() -> Callable[..., CorpusReport]:
    def report(text: str = "text", languages: Languages = ZH_EN) -> CorpusReport:
        """Every field that can hold text holds `text`."""
        samples = [Sample(text, text, text, 1.5), Sample(text, text, text)]
        rules = {text: RuleReport(text, text, 3, samples, samples), "r": RuleReport(6, "score", 0)}
        origin = {"name": text, "url": text, "sha256": text, "size": 3, "licence": text}
        return CorpusReport(
            parts={text: PartReport(100, 90, rules), "dev": PartReport(3, 3)},
            held_out={"dev": 7},
            problems=[text],
            notes=[text],
            fingerprint=text,
            languages=languages,
            sources=[SourceReport(text, 100, 90, 1.0, text, [origin])],
            profile=profile([("我喜欢你", "I like you 2"), ("他来了", "He came.")], ZH_EN),
            vocabulary={text: VocabularyReport(8000, 0.0, 0.01, None, 0.8, 0.9, 0.99)},
            random_kept=samples,
            worst_kept=samples,
            seconds={text: 1.5},
        )

    return report
