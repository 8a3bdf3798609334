"""The command line: parse, call, print. One module a command; nothing heavy loads before a command runs."""

from bqrl.cli.commands import app, main

__all__ = ["app", "main"]
