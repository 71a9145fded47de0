"""The cache of an incremental decoder against plain concatenation."""

import torch

from transformer_mt.model.decoder_state import DecoderState, KeyValueCache


def test_cache_returns_everything_appended_so_far() -> None:
    """Past several doublings, with sentences that leave in between."""
    generator = torch.Generator().manual_seed(6)
    cache = KeyValueCache(beam=3)
    keys = values = torch.empty(4, 2, 0, 5)
    for step in range(70):
        k, v = (torch.randn(keys.size(0), 2, 3, 5, generator=generator) for _ in range(2))
        keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
        cached_keys, cached_values = cache.append(k, v)
        assert cached_keys.equal(keys) and cached_values.equal(values)
        assert cache.length == step + 1
        if step in (3, 16, 40):
            kept = torch.tensor({3: [0, 1, 3], 16: [1, 2], 40: [0]}[step])
            keys, values = keys[kept], values[kept]
            cache.select_sentences(kept)


def test_an_empty_cache_loses_sentences_too() -> None:
    cache = KeyValueCache()
    cache.select_sentences(torch.tensor([0]))
    assert cache.length == 0


def test_mask_follows_the_ancestors() -> None:
    """Each beam sees, at each position, the slot in which its own prefix was written."""
    batch, beam = 2, 3
    memory = torch.zeros(batch, 1, 4, 2)
    state = DecoderState([(memory, memory)], torch.ones(batch, 1, 1, 4, dtype=torch.bool), beam)
    generator = torch.Generator().manual_seed(1)
    slots = [[[] for _ in range(beam)] for _ in range(batch)]  # written out, one list per beam
    for length in range(1, 8):
        slots = [[[*beams[k], k] for k in range(beam)] for beams in slots]
        mask = state.next_mask()
        assert mask is not None and mask.shape == (batch, 1, beam, length * beam)
        for b in range(batch):
            for k in range(beam):
                seen = mask[b, 0, k].nonzero().squeeze(1).tolist()
                assert seen == [s * beam + slot for s, slot in enumerate(slots[b][k])]
        parents = torch.randint(beam, (batch, beam), generator=generator)
        state.select_beams(parents)
        slots = [
            [beams[p] for p in row] for beams, row in zip(slots, parents.tolist(), strict=True)
        ]


def test_one_beam_needs_no_mask() -> None:
    memory = torch.zeros(2, 1, 4, 2)
    state = DecoderState([(memory, memory)], torch.ones(2, 1, 1, 4, dtype=torch.bool))
    assert state.next_mask() is None
