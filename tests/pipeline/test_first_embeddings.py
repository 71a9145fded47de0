"""The embeddings that a training begins with: vectors of co-occurrence and a random part."""

import pytest
import torch
from encoded import encoded_side

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.cooccurrence import cooccurrence_vectors
from transformer_mt.encoding.encoded_corpus import EncodedCorpus
from transformer_mt.model.architectures import new_model
from transformer_mt.model.encoder_decoder import EncoderDecoder
from transformer_mt.pipeline.first_embeddings import use_cooccurrence

VOCAB = 40
NEVER = 39


@pytest.fixture
def corpus() -> EncodedCorpus:
    generator = torch.Generator().manual_seed(1)
    rows = [torch.randint(4, NEVER, (6,), generator=generator).tolist() for _ in range(300)]
    return EncodedCorpus(encoded_side(rows), encoded_side([row[::-1] for row in rows]))


def configured(cfg: Config, *, joint: bool, architecture: str, tie: str) -> Config:
    model = cfg.model.model_copy(update={"architecture": architecture, "tie_embeddings": tie})
    tokenizer = cfg.tokenizer.model_copy(update={"joint": joint})
    return cfg.model_copy(update={"model": model, "tokenizer": tokenizer})


def weights_of(model: EncoderDecoder) -> list[torch.Tensor]:
    embeddings = model.encoder_embedding.tokens, model.decoder_embedding.tokens, model.output
    return [part.weight.detach().clone() for part in embeddings]


@pytest.mark.parametrize(
    ("joint", "tie"), [(True, "all"), (True, "decoder"), (False, "decoder"), (False, "none")]
)
@pytest.mark.parametrize("architecture", ["paper", "rnn"])
def test_each_side_has_its_vectors_and_a_random_part(
    corpus: EncodedCorpus, toy_config: Config, joint: bool, tie: str, architecture: str
) -> None:
    cfg = configured(toy_config, joint=joint, architecture=architecture, tie=tie)
    torch.manual_seed(2)
    model = new_model(cfg.model, VOCAB, VOCAB, pad_id=0)
    before = weights_of(model)
    rest = {k: v.clone() for k, v in model.state_dict().items() if "tokens" not in k}
    use_cooccurrence(model, cfg, corpus)

    src, tgt = cooccurrence_vectors(corpus, VOCAB, VOCAB, joint=joint, width=32, seed=cfg.seed)
    for old, new, vectors in zip(before, weights_of(model), (src, tgt, tgt), strict=True):
        assert new[NEVER].equal(old[NEVER])
        torch.testing.assert_close(new[4:NEVER], 0.6 * old[4:NEVER] + 0.8 * vectors[4:NEVER])
        assert new.norm(dim=1).mean() == pytest.approx(1, abs=0.2)
    if tie in ("all", "decoder"):
        assert model.output.weight is model.decoder_embedding.tokens.weight
    others = {k: v for k, v in model.state_dict().items() if k in rest and k != "output.weight"}
    assert all(rest[name].equal(value) for name, value in others.items())
