"""`python -m memsmith`: the command line."""

from memsmith.surfaces.cli import main

main()
