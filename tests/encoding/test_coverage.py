"""How well a vocabulary covers a text: counted by hand."""

from pathlib import Path

from transformer_mt.config.model import TokenizerConfig
from transformer_mt.encoding.coverage import vocabulary_report
from transformer_mt.encoding.tokenizer import train_tokenizer


def test_vocabulary_report(tmp_path: Path) -> None:
    cfg = TokenizerConfig.model_validate({"type": "bpe", "vocab_size": 290})
    train = ["the cat sat on the mat", "the dog sat"] * 20
    tokenizer = train_tokenizer(train, tmp_path / "t.model", cfg, ["en"], seed=1)
    seen = vocabulary_report(tokenizer, train, train, "en")
    assert (seen.type_coverage, seen.token_coverage, seen.unknown_rate) == (1, 1, 0)
    assert seen.byte_rate == 0
    assert seen.vocab_size == tokenizer.vocab_size
    other = vocabulary_report(tokenizer, train, ["the the the zebra"], "en")
    assert (other.type_coverage, other.token_coverage) == (0.5, 0.75)
    n_tokens = len(tokenizer.encode(["the the the zebra"])[0])
    assert other.tokens_per_word == n_tokens / 4
    assert other.tokens_per_character == n_tokens / len("the the the zebra")
    chinese = vocabulary_report(tokenizer, ["我们"], ["我 你"], "zh")
    assert (chinese.type_coverage, chinese.token_coverage) == (0.5, 0.5)
    assert chinese.tokens_per_word is None
    assert chinese.byte_rate > 0.5  # three bytes for each character
    nothing = vocabulary_report(tokenizer, [], [], "en")
    assert nothing.tokens_per_character == 0
