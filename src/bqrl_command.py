"""The command `bqrl`: an interrupt during the imports, which take a moment, ends it with one line instead of a traceback.

This module lies outside of the package, because importing a part of a package imports the package first.
"""

import os
import signal


def main() -> None:
    """Import the command line and run it."""

    def stop(*_: object) -> None:
        os.write(2, b"bqrl: interrupted\n")
        os._exit(130)  # nothing has begun; an exception could be swallowed by an import

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, stop)
    from bqrl.cli import main as command

    signal.signal(signal.SIGINT, before)
    command()
