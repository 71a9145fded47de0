"""Settings that suit a corpus of a given size: where to start, and why.

Comes in: counts of a corpus, its languages, the kind of device. Goes out: pieces of `Advice`. A
table of few rows; the score on dev has the last word. This file opens no corpus and measures
nothing.

Sources: Vaswani et al. 2017; Popel and Bojar 2018, "Training Tips for the Transformer Model";
Sennrich and Zhang 2019, "Revisiting Low-Resource Neural Machine Translation"; Ding et al. 2019, "A
Call for Prudent Choice of Subword Merge Operations"; Araabi and Monz 2020, "Optimizing Transformer
for Low-Resource Neural Machine Translation"; Provilkov et al. 2020, "BPE-Dropout"; Wu et al. 2021,
"Good for Misconceived Reasons"; Liu et al. 2025, "Muon is Scalable for LLM Training"; docs/lab.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from transformer_mt.config.advice import Advice
from transformer_mt.config.data import Languages
from transformer_mt.config.model import ModelConfig
from transformer_mt.messages.catalogue import tr
from transformer_mt.text.languages import is_unspaced, script_of

UPDATES_PER_EPOCH = 50  # at least, so that a small corpus is not a handful of updates
MIN_TOKENS_PER_UPDATE = 500
_SENNRICH = tr("Sennrich and Zhang 2019")


class _Size(NamedTuple):
    d_model: int
    heads: int
    ffn: int
    layers: int  # of encoder and decoder each
    why: str


_TINY = _Size(128, 4, 256, 4, tr('"Transformer-tiny", best on 29,000 pairs: Wu et al. 2021'))
_SMALL = _Size(256, 4, 1024, 6, tr("less than base suits less text: Araabi and Monz 2020"))
_BASE = _Size(512, 8, 2048, 6, tr("the paper's base model: Vaswani et al. 2017, table 3"))
_BIG = _Size(
    1024, 16, 4096, 6, tr("with enough text and time big beats base: Popel and Bojar 2018")
)
_FOR_CPU = _Size(256, 4, 1024, 6, tr("base takes days without a GPU: docs/performance.md"))


class _Recipe(NamedTuple):
    """One row: what suits a corpus of fewer than `below` pairs."""

    below: float
    size: _Size
    vocab_size: int  # of each language, or of a joint vocabulary of spaced languages
    dropout: float
    tokens_per_update: int
    lr: float | Literal["paper"]
    warmup_updates: int
    sampling: float


_RECIPES = (
    _Recipe(20_000, _TINY, 3_000, 0.4, 1_500, 3e-3, 1_000, 0.1),
    _Recipe(100_000, _TINY, 7_000, 0.3, 3_000, 5e-3, 1_000, 0.1),
    _Recipe(1_000_000, _SMALL, 16_000, 0.2, 12_000, "paper", 4_000, 0.1),
    _Recipe(10_000_000, _BASE, 32_000, 0.1, 25_000, "paper", 4_000, 0.0),
    _Recipe(float("inf"), _BIG, 32_000, 0.1, 25_000, "paper", 4_000, 0.0),
)
_UPDATES = ((20_000, 2_000), (100_000, 4_000), (1_000_000, 30_000), (float("inf"), 100_000))
_FEW_PAIRS, _FEW_PIECES, _BYTES = 10_000, 1_200, 300  # pieces: at least; bytes and special ones
_FEW_PAIRS_LAB, _MUON = "docs/lab/few-pairs.md", "docs/lab/muon.md"
_CHANNEL_LAB = "docs/lab/noisy-channel.md"
_WHY_PRE = tr("post stalled here at high rates: docs/results.md")

# Small corpora and short trainings have a recipe of their own: Transformer-tiny and Muon.
_SMALL_CORPUS, _SHORT_TRAINING = 100_000, 100_000_000  # pairs, target tokens
_BY_EPOCHS = ((8, 0.1, 1_000), (20, 0.2, 0), (float("inf"), 0.3, 0))  # dropout, momentum_warmup
_WARMUP, _LONGEST_WARMUP = 0.15, 400  # of the updates; updates
_NOTHING: Mapping[str, Any] = MappingProxyType({})  # settings that a user keeps


class Budget(NamedTuple):
    """The time for a training."""

    minutes: float
    tokens: float  # target tokens that Transformer-tiny reads in it


def recommend(
    n_pairs: int,
    tgt_tokens: int,
    *,
    languages: Languages,
    device: str,
    kept: Mapping[str, Any] = _NOTHING,
) -> list[Advice]:
    """Settings to start from.

    Args:
        tgt_tokens: of an epoch, with EOS.
        device: cpu or cuda.
        kept: settings of the user, by key, which stay, and which other settings suit.
    """
    recipe = next(recipe for recipe in _RECIPES if n_pairs < recipe.below)
    size, vocab_size = recipe.size, recipe.vocab_size
    if device == "cpu" and size.d_model > _FOR_CPU.d_model:
        size, vocab_size = _FOR_CPU, 16_000
    joint, why_joint = _joint(languages)
    joint = kept.get("tokenizer.joint", joint)
    why_vocab_size = tr("frequent words stay whole: Vaswani et al. 2017, Ding et al. 2019")
    if vocab_size <= 7_000:
        why_vocab_size = tr(
            "a small corpus needs a small vocabulary: Ding et al. 2019, {}", _SENNRICH
        )
    if is_unspaced(languages.src) or is_unspaced(languages.tgt):
        why_vocab_size += tr("; with room for characters")
        vocab_size = max(vocab_size, 5_000) * (3 if joint else 2) // 2
    paper_lr = recipe.lr == "paper"
    rows: dict[str, tuple[Any, str]] = {
        "tokenizer.vocab_size": (vocab_size, why_vocab_size),
        "tokenizer.joint": (joint, why_joint),
        "tokenizer.sampling": _sampling(recipe.sampling, device),
        **{key: (value, size.why) for key, value in _sizes(size).items()},
        "model.dropout": (recipe.dropout, _why_dropout(recipe.dropout)),
        "model.norm": ("pre", _WHY_PRE)
        if size.d_model < _BASE.d_model
        else ("post", tr("as in the paper, with its slow warm-up")),
        "train.tokens_per_update": _tokens_per_update(recipe.tokens_per_update, tgt_tokens),
        "train.lr": (
            recipe.lr,
            tr("d_model^-0.5 · warmup^-0.5: Vaswani et al. 2017, section 5.3")
            if paper_lr
            else tr("a small pre-norm model takes a high one: Wu et al. 2021"),
        ),
        "train.warmup_updates": (
            recipe.warmup_updates,
            tr("as in the paper; a shorter one can diverge: Popel and Bojar 2018")
            if paper_lr
            else tr("short, because training is"),
        ),
    }
    return _keep((Advice(key, value, why) for key, (value, why) in rows.items()), kept)


def starting_point(
    n_pairs: int,
    tgt_tokens: int,
    *,
    characters: Sequence[int],
    words: Sequence[int],
    languages: Languages,
    device: str,
    budget: Budget | None = None,
    kept: Mapping[str, Any] = _NOTHING,
) -> list[Advice]:
    """All settings of a first training.

    Args:
        characters: different ones on each side; a vocabulary has room for them.
        words: of each side that occur three times or more; 0: they are not spaced.
        budget: see `training_that_ends`.
        kept: see `recommend`.
    """
    n_pairs = _pairs_that_matter(n_pairs, budget)
    found = recommend(n_pairs, tgt_tokens, languages=languages, device=device, kept=kept)
    advice = {a.key: a for a in found}
    joint, size = advice["tokenizer.joint"], advice["tokenizer.vocab_size"]
    room = [max(n + _BYTES, m) for n, m in zip(characters, words, strict=True)]
    if joint.value:
        characters, room = [sum(characters)], [sum(room)]
    others = training_that_ends(
        n_pairs, tgt_tokens, languages=languages, device=device, budget=budget, kept=kept
    )
    if size.key not in kept:
        size = size._replace(value=max(size.value, *(3 * n // 2 + 400 for n in characters)))
    if n_pairs < _FEW_PAIRS:
        sizes = [max(_FEW_PIECES, n) for n in room]
        why = tr("characters, and words that occur three times: {}", _FEW_PAIRS_LAB)
        size = Advice(size.key, sizes if len(sizes) > 1 else sizes[0], why)
        why = tr("models of few pairs write too little: {}", _FEW_PAIRS_LAB)
        others.append(Advice("decode.length_penalty", 1.5, why))
    if n_pairs < _SMALL_CORPUS:
        why = tr("ranked by the words of the source, 1 to 2 BLEU more: {}", _CHANNEL_LAB)
        others += [Advice("decode.beam", 8, why), Advice("decode.channel", 1.5, why)]
    sampling = [a for a in [advice["tokenizer.sampling"]] if a.value]
    return _keep([size, joint, *sampling, *others], kept)


def training_that_ends(
    n_pairs: int,
    tgt_tokens: int,
    *,
    languages: Languages,
    device: str,
    budget: Budget | None = None,
    kept: Mapping[str, Any] = _NOTHING,
) -> list[Advice]:
    """Settings of `model` and `train`: a size, and a schedule that the learning rate ends at 0.

    Args:
        budget: the clock ends it; None: a number of updates that suits the corpus.
        kept: see `recommend`.
    """
    n_pairs = _pairs_that_matter(n_pairs, budget)
    found = recommend(n_pairs, tgt_tokens, languages=languages, device=device, kept=kept)
    advice = {a.key: a for a in found if not a.key.startswith("tokenizer.")}
    n_updates: float = next(n for below, n in _UPDATES if n_pairs < below)
    tokens = n_updates * advice["train.tokens_per_update"].value
    if budget is not None:
        tokens = budget.tokens * _work(_sizes(_TINY)) / _work({a.key: a.value for a in found})
    if n_pairs < _SMALL_CORPUS:
        few = _small_training(n_pairs, tgt_tokens, tokens, advice["train.tokens_per_update"].value)
        advice |= {a.key: a for a in _keep((Advice(*row) for row in few), kept)}
    n_updates = max(1.0, tokens / advice["train.tokens_per_update"].value)
    warmup = max(1, round(_WARMUP * n_updates))
    is_paper = advice["train.lr"].value == "paper"
    post_norm = kept.get("model.norm") == "post"  # which needs the long warm-up of the paper
    if is_paper and not post_norm and warmup < advice["train.warmup_updates"].value:
        peak = (advice["model.d_model"].value * advice["train.warmup_updates"].value) ** -0.5
        why = tr("the peak of the paper's schedule, in a training that is shorter")
        advice["train.lr"] = Advice("train.lr", round(peak, 6), why)
        advice["model.norm"] = Advice("model.norm", "pre", _WHY_PRE)  # and stands a short warm-up
    if advice["model.norm"].value == "pre" and kept.get("model.architecture") in (None, "modern"):
        why = tr("rotary positions, SwiGLU, RMSNorm: 1.75 to 2.5 BLEU better here, docs/results.md")
        advice["model.norm"] = Advice("model.architecture", "modern", why)
    if advice["train.lr"].value != "paper":
        warmup = warmup if is_paper else min(_LONGEST_WARMUP, warmup)
        why = tr("of about {:,.0f} updates", n_updates)
        advice["train.warmup_updates"] = Advice("train.warmup_updates", warmup, why)
    rows: list[tuple[str, Any, str]] = [
        ("train.cooldown_updates", "auto", tr("lr falls to 0 in the last two thirds")),
        ("train.max_tokens", 2048 if device == "cpu" else "auto", tr("of one micro-batch")),
        ("train.validate_every", max(1, round(n_updates / 8)), tr("about eight times")),
        ("train.log_every", max(1, round(n_updates / 40)), tr("about forty lines")),
        ("train.patience", None, tr("it trains to its end")),
        ("train.average", 0, tr("after a cool-down the last weights are the best")),
    ]
    if budget is None:
        rows.append(("train.max_updates", round(n_updates), tr("for a corpus of this size")))
    else:
        most = max(100_000, round(100 * n_updates))
        rows.append(("train.max_updates", most, tr("more than there is time for")))
        rows.append(("train.max_minutes", budget.minutes, tr("as asked for")))
    advice |= {row[0]: Advice(*row) for row in rows}
    return sorted(_keep(advice.values(), kept), key=lambda a: a.key.startswith("train."))


def _keep(advice: Iterable[Advice], kept: Mapping[str, Any]) -> list[Advice]:
    """The advice, with the user's settings in place of others."""
    why = tr("as asked for")
    return [Advice(a.key, kept[a.key], why) if a.key in kept else a for a in advice]


def tokens_of_tiny(tokens: float, advice: Iterable[Advice]) -> float:
    """What Transformer-tiny reads with the work that so many tokens take in this advice's model."""
    return tokens * _work({a.key: a.value for a in advice}) / _work(_sizes(_TINY))


def _pairs_that_matter(n_pairs: int, budget: Budget | None) -> int:
    """A short training makes of a large corpus as much as of a small one."""
    if budget is None or budget.tokens >= _SHORT_TRAINING:
        return n_pairs
    return min(n_pairs, _SMALL_CORPUS - 1)


def _small_training(
    n_pairs: int, tgt_tokens: int, tokens: float, most: int
) -> list[tuple[str, Any, str]]:
    """What differs from `recommend` where the text, or the time for it, is little.

    Args:
        tgt_tokens, tokens: of an epoch, and of all epochs.
        most: tokens of an update.
    """
    epochs, lr = tokens / tgt_tokens, 8e-3 if tokens < 4e6 else 6e-3
    if n_pairs < _FEW_PAIRS:
        most, lr = min(1_500, max(MIN_TOKENS_PER_UPDATE, tgt_tokens // 20 // 100 * 100)), 5e-3
    # In twice the time, updates are √2 times as many, and as large.
    per_update = max(MIN_TOKENS_PER_UPDATE, min(most, round(math.sqrt(1.6 * tokens) / 100) * 100))
    dropout, growing = next((a, b) for below, a, b in _BY_EPOCHS if epochs < below)
    rows: list[tuple[str, Any, str]] = [
        ("model.dropout", dropout, tr("each pair is seen {:.0f} times: {}", epochs, _MUON)),
        ("train.tokens_per_update", per_update, tr("short trainings take small ones: {}", _MUON)),
        ("train.lr", lr, tr("a small pre-norm model takes a high one: {}", _MUON)),
        ("train.optimizer", "muon", tr("learns more from each update here: {}", _MUON)),
        ("train.weight_decay", 0.1, tr("of the matrices of the layers; Liu et al. 2025")),
        ("train.first_embeddings", "cooccurrence", tr("words and their translations begin alike")),
        ("train.guided_attention", 0.5, tr("attention finds these translations sooner")),
    ]
    if growing:
        rows.append(("train.momentum_warmup", growing, tr("early gradients are soon out of date")))
    return rows


def _sizes(size: _Size) -> dict[str, int]:
    return {
        "model.d_model": size.d_model,
        "model.heads": size.heads,
        "model.ffn": size.ffn,
        "model.encoder_layers": size.layers,
        "model.decoder_layers": size.layers,
    }


# Settings on which other ones depend.
DECIDING = ("tokenizer.joint", "train.tokens_per_update", *_sizes(_TINY))


def _work(settings: Mapping[str, Any]) -> float:
    """Products for each token in the layers of the model that these settings describe."""
    sizes = {key.removeprefix("model."): settings[key] for key in _sizes(_TINY)}
    return ModelConfig.model_validate(sizes).matrix_parameters


def _joint(languages: Languages) -> tuple[bool, str]:
    if languages.bidirectional:
        return True, tr("each language is on both sides")
    if script_of(languages.src) == script_of(languages.tgt):
        return True, tr("one script: names and words are shared (Vaswani et al. 2017, section 5.1)")
    return False, tr("two scripts share next to nothing")


def _sampling(sampling: float, device: str) -> tuple[float, str]:
    why = tr("enough text shows words in many forms already")
    if sampling and device == "cpu":
        sampling = 0.0
        why = tr(
            "other sub-words each epoch cost 14 BLEU in 600 updates of Tatoeba: docs/lab/tatoeba.md"
        )
    elif sampling:
        why = tr("other sub-words each epoch help small corpora in long trainings")
    return sampling, tr("{}; Provilkov et al. 2020", why)


def _why_dropout(dropout: float) -> str:
    if dropout >= 0.4:
        return tr("each pair is seen very often: {}, Araabi and Monz 2020", _SENNRICH)
    if dropout >= 0.2:
        return tr("each pair is seen often: Wu et al. 2021, Araabi and Monz 2020")
    return tr("as in the paper; each pair is seen a few times only")


def _tokens_per_update(tokens: int, tgt_tokens: int) -> tuple[int, str]:
    affordable = max(MIN_TOKENS_PER_UPDATE, tgt_tokens // UPDATES_PER_EPOCH)
    if affordable < tokens:
        why = tr("leaves {} updates in an epoch: {}", UPDATES_PER_EPOCH, _SENNRICH)
        return affordable // 100 * 100, why
    if tokens > 3_000:
        return tokens, tr("larger updates end better: Vaswani et al. 2017, Popel and Bojar 2018")
    return tokens, tr("small updates for a small corpus: {}", _SENNRICH)
