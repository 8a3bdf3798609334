"""Published studies: one package per paper, with its settings, its README and its code."""

from pathlib import Path


def paper_file(file: str, paper: str = "ucb_bqrl") -> Path:
    """Return the path of a file of a published study."""
    return Path(__file__).parent / paper / file
