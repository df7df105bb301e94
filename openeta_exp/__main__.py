"""`python -m openeta_exp`."""

from openeta_exp.cli import main

if __name__ == "__main__":
    main()
