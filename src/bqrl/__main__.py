"""`python -m bqrl` is the command line."""

from bqrl.cli import main

main()
