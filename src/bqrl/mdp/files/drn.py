"""Reads models in Storm's text format (.drn) through stormpy, which parses the file and hands it over as .umb."""

from __future__ import annotations

import tempfile
from pathlib import Path


def umb_of_drn(path: Path) -> bytes:
    """Return a .drn file as the content of a .umb file; ImportError with the remedy if stormpy is not installed."""
    try:
        import stormpy
        import stormpy.io
    except ImportError:
        raise ImportError("a .drn file needs stormpy; install it with: pip install 'bqrl[storm]'") from None
    if not hasattr(stormpy.io, "export_to_umb"):
        raise ImportError(f"a .drn file needs stormpy 1.13 or later, got {stormpy.__version__}; upgrade it")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "model.umb"
        try:
            options = stormpy.io.DirectEncodingParserOptions()
            options.build_choice_labeling = True
            stormpy.io.export_to_umb(stormpy.build_model_from_drn(str(path), options=options), str(place))
        except Exception as fault:  # Storm's errors have several types
            raise ValueError(f"Storm cannot read the file: {' '.join(str(fault).split())[:200]}") from None
        return place.read_bytes()
