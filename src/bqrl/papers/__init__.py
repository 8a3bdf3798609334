"""Published studies, one folder each: beside this file in an installed package, in the folder `papers` of a clone."""

from pathlib import Path

_PLACES = (Path(__file__).parent, Path(__file__).parents[3] / "papers")
_FOUND = [place for place in _PLACES if (place / "ucb_bqrl" / "study.toml").is_file()]  # not another folder `papers`
if not _FOUND:
    raise ImportError(f"the published studies are neither in {_PLACES[0]} nor in {_PLACES[1]}; install bqrl again")
__path__ = [str(_FOUND[0])]


def paper_file(file: str, paper: str = "ucb_bqrl") -> Path:
    """A file of a published study."""
    return _FOUND[0] / paper / file
