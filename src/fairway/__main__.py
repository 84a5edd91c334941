"""`python -m fairway`: the command line."""

from fairway.cli.main import main

main(prog_name="fairway")
