"""Scores of weights in training: on dev at every validation, on the tests at the end.

Each process translates its share, and all find the same loss, BLEU and chrF.
"""

from collections.abc import Callable
from dataclasses import asdict

import torch
import torch.nn.functional as F

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.encoded_corpus import EncodedCorpus
from transformer_mt.encoding.tokenizer import PAD_ID
from transformer_mt.evaluation.metrics import Score, Scorer
from transformer_mt.evaluation.test_sets import EvaluationSet, read_dev_sets
from transformer_mt.model.transformer import Transformer
from transformer_mt.pipeline.prepare import Prepared
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.system.output import write_text
from transformer_mt.system.processes.distributed import ALONE, Ranks
from transformer_mt.training.batches import collate, deal, plan_epoch
from transformer_mt.translation.translator import Translator

DEV_TOKENS = 2048  # of a batch of dev, padding counted
DEV_ROWS = 256  # tokens whose logits are held at a time
DEV_METRICS = ("bleu", "chrf")


def dev_validation(
    cfg: Config, run: Run, prepared: Prepared, model: Transformer, ranks: Ranks
) -> Callable[[], dict[str, float]]:
    """A function that scores the current weights on dev: loss, BLEU and chrF, greedily.

    With both directions the scores are the means of the two, which are told too: `bleu.zh-en`.
    """
    dev_sets = read_dev_sets(run.clean_dir, cfg.languages)

    def validate() -> dict[str, float]:
        # A new one each time: it may keep weights in another order, and these have changed.
        translator = Translator(model, prepared.tokenizers, cfg)
        values = {"loss": dev_loss(model, prepared.dev, ranks)}
        scores = [_score(translator, dev, ranks, beam=1)[0] for dev in dev_sets]
        for metric in DEV_METRICS:
            values[metric] = sum(score[metric].score for score in scores) / len(scores)
        if len(dev_sets) > 1:
            for dev, score in zip(dev_sets, scores, strict=True):
                direction = dev.name.removeprefix("dev.")
                values |= {f"{metric}.{direction}": s.score for metric, s in score.items()}
        return values

    return validate


@torch.inference_mode()
def dev_loss(model: Transformer, dev: EncodedCorpus, ranks: Ranks = ALONE) -> float:
    """Cross-entropy without smoothing, in nats per target token."""
    model.eval()
    lengths, n = (dev.src.lengths, dev.tgt.lengths), DEV_TOKENS
    plan = plan_epoch(*lengths, max_tokens=n, tokens_per_update=n, seed=0, epoch=0)
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
