"""The command line: parse, call, print. One module per command, imported when the command is used."""

from bqrl.cli.commands import app, main

__all__ = ["app", "main"]
