"""What training and translating cost on this machine: plan, bench, doctor."""
