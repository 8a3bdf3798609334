"""The identity of the software."""

import bqrl
from bqrl import versions


def test_the_fingerprint_follows_the_code(monkeypatch, tmp_path):
    (tmp_path / "loops").mkdir()
    (tmp_path / "loops/law.py").write_text("x = 1\n")
    monkeypatch.setattr(bqrl, "__file__", str(tmp_path / "__init__.py"))
    first = versions.fingerprint.__wrapped__()
    (tmp_path / "loops/law.py").write_text("x = 2\n")
    assert versions.fingerprint.__wrapped__() != first
