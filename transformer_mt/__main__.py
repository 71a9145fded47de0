"""`python -m transformer_mt` is `tmt`; the form that process launchers need."""

from transformer_mt.cli import main

if __name__ == "__main__":
    main()
