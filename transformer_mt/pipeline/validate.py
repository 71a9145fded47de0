"""Scores of weights in training: on dev at every validation, on the tests at the end.

Each process translates its share, and all find the same loss, BLEU and chrF.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import torch
import torch.nn.functional as F

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.encoded_corpus import EncodedCorpus
from transformer_mt.encoding.tokenizer import PAD_ID
from transformer_mt.evaluation.metrics import Score, Scorer
from transformer_mt.evaluation.test_sets import EvaluationSet, read_dev_sets
from transformer_mt.model.encoder_decoder import EncoderDecoder
from transformer_mt.pipeline.prepare import Prepared
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.system.output import write_text
from transformer_mt.system.processes.distributed import ALONE, Ranks
from transformer_mt.training.batches import deal, plan_updates
from transformer_mt.training.padding import collate
from transformer_mt.translation.confidence import ConfidenceCurve
from transformer_mt.translation.translator import Translator

DEV_TOKENS = 2048  # of a batch of dev, padding counted
DEV_ROWS = 256  # tokens whose logits are held at a time
DEV_METRICS = ("bleu", "chrf")
CONFIDENCE_SENTENCES = 500  # of dev, in each direction
N_SAMPLES = 3  # sentences of dev that are shown with their translations


def dev_validation(
    cfg: Config, run: Run, prepared: Prepared, model: EncoderDecoder, ranks: Ranks
) -> Callable[[], dict[str, Any]]:
    """A function that scores the current weights on dev: loss, BLEU and chrF, greedily.

    With both directions the scores are the means of the two, which are told too: `bleu.zh-en`.
    Beside them stand `samples`, see `sample_translations`.
    """
    dev_sets = read_dev_sets(run.clean_dir, cfg.languages)

    def validate() -> dict[str, Any]:
        # A new one each time: it may keep weights in another order, and these have changed.
        translator = Translator(model, prepared.tokenizers, cfg)
        values: dict[str, Any] = {"loss": dev_loss(model, prepared.dev, ranks)}
        scored = [_score(translator, dev, ranks, beam=1) for dev in dev_sets]
        scores = [score for score, _ in scored]
        for metric in DEV_METRICS:
            values[metric] = sum(score[metric].score for score in scores) / len(scores)
        if len(dev_sets) > 1:
            for dev, score in zip(dev_sets, scores, strict=True):
                direction = dev.name.removeprefix("dev.")
                values |= {f"{metric}.{direction}": s.score for metric, s in score.items()}
        return {**values, "samples": sample_translations(dev_sets, [hyps for _, hyps in scored])}

    return validate


def sample_translations(
    dev_sets: Sequence[EvaluationSet], outputs: Sequence[Sequence[str]]
) -> list[dict[str, str]]:
    """Source, translation and reference of the same sentences of dev at every validation.

    A short, a usual and a long one, of both directions if there are two.
    """
    samples = []
    for i in range(N_SAMPLES):
        dev, hyps = dev_sets[i % len(dev_sets)], outputs[i % len(dev_sets)]
        by_length = sorted(range(len(dev.srcs)), key=lambda row: len(dev.srcs[row]))
        row = by_length[(i + 1) * len(by_length) // (N_SAMPLES + 1)]
        samples.append({"src": dev.srcs[row], "hyp": hyps[row], "ref": dev.refs[row]})
    return samples


@torch.inference_mode()
def dev_loss(model: EncoderDecoder, dev: EncodedCorpus, ranks: Ranks = ALONE) -> float:
    """Cross-entropy without smoothing, in nats per target token."""
    model.eval()
    lengths, n = (dev.src.lengths, dev.tgt.lengths), DEV_TOKENS
    plan = plan_updates(*lengths, max_tokens=n, tokens_per_update=n, seed=0, epoch=0)
    nll, n_tokens = 0.0, 0
    for dealt in deal(list(plan.batches()), ranks.rank, ranks.size, even=True):
        batch = collate(dev, dealt.rows).to(model.output.weight.device)
        real = batch.tgt_out != PAD_ID
        hidden, tgt_out = model(batch.src, batch.tgt_in)[real], batch.tgt_out[real]
        for rows, targets in zip(hidden.split(DEV_ROWS), tgt_out.split(DEV_ROWS), strict=True):
            nll += F.cross_entropy(model.project(rows).float(), targets, reduction="sum").item()
        n_tokens += len(tgt_out)
    nll, n = ranks.sum(torch.tensor([nll, n_tokens], dtype=torch.float64)).tolist()
    return nll / n


def score_test(
    translator: Translator, run: Run, test: EvaluationSet, ranks: Ranks = ALONE
) -> dict[str, Score]:
    """Translate a test set of the run with the configured beam, keep the output, score it."""
    scores, hyps = _score(translator, test, ranks)
    if ranks.is_main:
        write_text(run.translations_dir / f"{test.name}.txt", "".join(f"{hyp}\n" for hyp in hyps))
    return scores


def confidence_curve(
    translator: Translator, dev_sets: Sequence[EvaluationSet], ranks: Ranks = ALONE
) -> ConfidenceCurve | None:
    """What the log-probabilities of a model are worth, by its translations of dev."""
    log_probs, chrf = [], []
    for dev in dev_sets:
        srcs, refs = dev.srcs[:CONFIDENCE_SENTENCES], dev.refs[:CONFIDENCE_SENTENCES]
        found = ranks.join_shares(
            [
                (one.log_prob, one.text)
                for one in translator.translate(ranks.share(srcs), to=dev.tgt)
            ]
        )
        log_probs += [log_prob for log_prob, _ in found]
        chrf += Scorer(dev.tgt).sentence_chrf([text for _, text in found], refs)
    return ConfidenceCurve.fit(log_probs, [score / 100 for score in chrf])


def _score(
    translator: Translator, test: EvaluationSet, ranks: Ranks, *, beam: int | None = None
) -> tuple[dict[str, Score], list[str]]:
    """BLEU and chrF of a set, and its translations; the processes share both kinds of work."""
    by_length = sorted(range(len(test.srcs)), key=lambda i: len(test.srcs[i]))  # like shares
    srcs = [test.srcs[i] for i in ranks.share(by_length)]
    texts = ranks.join_shares(translator.translate_texts(srcs, to=test.tgt, beam=beam))
    hyps = [text for _, text in sorted(zip(by_length, texts, strict=True))]
    own_scores = Scorer(test.tgt).score(hyps, test.refs, ranks.share(DEV_METRICS))
    scores = ranks.join_shares([asdict(score) for score in own_scores.values()])
    return dict(zip(DEV_METRICS, (Score(**score) for score in scores), strict=True)), hyps
