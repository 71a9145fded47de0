"""Ids → ids: greedy and beam search over a step function, sampling, constraints, ensembles."""
