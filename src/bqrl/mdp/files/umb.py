"""Reads models in the Unified Markov Binary format (.umb), which PRISM, Storm and Modest write.

A file is a tar archive, perhaps compressed, of `index.json` and little-endian arrays:

    state-to-choices      choices of every state (n + 1 places, where each list begins)
    choice-to-branches    branches of every choice, likewise
    branch-to-target, branch-to-probability
    annotations/rewards/NAME/{states,choices,branches}/values
    actions/choices       an action per choice, with names
    valuations/states     the variables of every state, packed bit by bit

A choice becomes an action. The reward of a stage is that of the state that is left plus those of its choice and its branch, as in
the cumulative rewards of PRISM and Storm. A state without choices stays where it is. The caller gives the horizon.

A model in Storm's text format (.drn) is read through stormpy, which parses the file and hands it over as .umb.
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.checks import bad_value, nearest
from bqrl.errors import FileFormatError, SizeError
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.table import from_columns
from bqrl.mdp.validation import check_horizon

MAX_STATES_NAMED = 200_000  # states of larger models keep their numbers
SIZES = {"double": 64, "rational": 128, "bool": 1, "int": 64, "uint": 64, "string": 64}  # default bits of a type


def read_umb(
    content: bytes, limit: int, *, horizon: Any = None, start: Any = None, discount: Any = 1.0, rewards: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the arguments of `MDP.from_table` for a .umb file; `rewards` names the reward structure."""
    files = _unpack(content, limit)
    if horizon is None:
        raise bad_value("horizon", None, "be given, because a .umb file has none", remedy="pass e.g. horizon=100")
    H, model = check_horizon(horizon), _Model(files)
    index, S = model.system, model.S
    if index.get("time") != "discrete" or index.get("#players", 1) > 1 or index.get("#observations", 0):
        kind = (
            f"time {index.get('time')!r}, {index.get('#players')} players, {index.get('#observations', 0)} observations"
        )
        raise FileFormatError(f"expected a Markov chain or MDP in discrete time, fully observed, got {kind}")
    reward = model.rewards(rewards)
    s = np.repeat(np.arange(S), np.diff(model.choices))
    names, a = model.actions(s)
    choice = np.repeat(np.arange(s.size), np.diff(model.branches))
    stuck = np.flatnonzero(np.diff(model.choices) == 0)
    columns = [s[choice], a[choice], model.target, model.probability, reward.of(s, choice)]
    extra = [stuck, np.zeros(stuck.size, np.int64), stuck, np.ones(stuck.size), reward.state[stuck]]
    s, a, after, p, paid = (np.concatenate(pair) for pair in zip(columns, extra, strict=True))
    table, _ = from_columns(np.zeros(s.size, np.int64), s, a, after, p, paid, H, S=S, A=max(1, len(names)))
    return {
        "table": table, "H": H, "start": model.start() if start is None else start, "discount": discount,
        "state_names": model.state_names(), "action_names": names or None,
    }  # fmt: skip


def _unpack(content: bytes, limit: int) -> dict[str, bytes]:
    """Return the files of the archive by name; nothing is written to disk."""
    found: dict[str, bytes] = {}
    total = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:*") as archive:
            for member in archive:
                total += member.size
                if total > limit:
                    raise SizeError(
                        f"the file must unpack to at most {limit} bytes, got more; raise max_bytes", needed=total, limit=limit,
                        name="max_bytes",
                    )  # fmt: skip
                part = archive.extractfile(member) if member.isfile() else None
                if part is not None:
                    found[member.name.removeprefix("./").removeprefix("/")] = part.read()
    except (tarfile.TarError, EOFError, OSError) as fault:
        raise FileFormatError(f"expected a tar archive, got a damaged or other file ({fault})") from None
    if "index.json" not in found:
        raise FileFormatError("expected index.json in the archive, got none")
    return found


class _Rewards:
    """One reward structure: a number per state, choice and branch."""

    def __init__(self, state: FloatArray, choice: FloatArray, branch: FloatArray) -> None:
        self.state, self.choice, self.branch = state, choice, branch

    def of(self, s: IntArray, choice: IntArray) -> FloatArray:
        """Return the reward of every branch; `s` is the state of every choice, `choice` that of every branch."""
        return self.state[s[choice]] + self.choice[choice] + self.branch


class _Model:
    """The arrays of a file, checked."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        try:
            self.index = json.loads(files["index.json"])
            self.system = self.index["transition-system"]
            self.S, C, B = (int(self.system[f"#{what}"]) for what in ("states", "choices", "branches"))
        except (ValueError, KeyError, TypeError) as fault:
            raise FileFormatError(
                f"expected index.json with a transition-system, got {fault!r}", column="index.json"
            ) from None
        if self.index.get("format-version") not in (0, 1):
            raise FileFormatError(f"expected format-version 0 or 1, got {self.index.get('format-version')!r}")
        self.choices = self._starts("state-to-choices", self.S, C)
        self.branches = self._starts("choice-to-branches", C, B)
        self.target = self._array("branch-to-target", np.uint64, B).astype(np.int64)
        if B and not (0 <= self.target.min() and self.target.max() < self.S):
            raise FileFormatError(
                f"targets must be from 0 to {self.S - 1}, got {self.target.max()}", column="branch-to-target"
            )
        kind = self.system.get("branch-probability-type")
        self.probability = np.ones(B) if kind is None else self._numbers("branch-to-probability", kind, B)

    def _array(self, name: str, dtype: Any, size: int) -> Any:
        """Return an array of known size; zeros if the file is absent."""
        content = self.files.get(f"{name}.bin")
        if content is None:
            return np.zeros(size, dtype)
        needed = size * np.dtype(dtype).itemsize
        if len(content) != needed:
            raise FileFormatError(f"{name}.bin must have {needed} bytes, got {len(content)}", column=name)
        return np.frombuffer(content, np.dtype(dtype).newbyteorder("<"))

    def _starts(self, name: str, rows: int, total: int) -> IntArray:
        if f"{name}.bin" not in self.files:
            return np.arange(rows + 1)
        starts = self._array(name, np.uint64, rows + 1).astype(np.int64)
        if starts[0] != 0 or starts[-1] != total or np.any(np.diff(starts) < 0):
            raise FileFormatError(
                f"{name}.bin must rise from 0 to {total}, got {starts[0]} to {starts[-1]}", column=name
            )
        return starts

    def _numbers(self, name: str, kind: dict[str, Any], size: int) -> FloatArray:
        """Return numbers of the type that the index states."""
        word = kind.get("type")
        if word == "double":
            return np.array(self._array(name, np.float64, size), np.float64)
        if word == "rational":
            half = int(kind.get("size", SIZES["rational"])) // 16  # bytes of numerator and denominator
            content = self.files.get(f"{name}.bin", bytes(2 * half * size))
            if len(content) != 2 * half * size:
                raise FileFormatError(f"{name}.bin must have {2 * half * size} bytes, got {len(content)}", column=name)
            parts = [content[i : i + half] for i in range(0, len(content), half)]
            up = [int.from_bytes(part, "little", signed=True) for part in parts[::2]]
            down = [int.from_bytes(part, "little") or 1 for part in parts[1::2]]
            return np.array([n / d for n, d in zip(up, down, strict=True)])
        raise FileFormatError(f"{name} must hold numbers of type double or rational, got {word!r}", column=name)

    def rewards(self, name: str | None) -> _Rewards:
        """Return the named reward structure; a file with exactly one needs no name."""
        listed = self.index.get("annotations", {}).get("rewards", {})
        ids = {entry.get("alias", key): key for key, entry in listed.items()}
        sizes = {"states": self.S, "choices": self.branches.size - 1, "branches": self.target.size}
        if not ids:
            raise FileFormatError("expected a reward structure in the file, got none", column="rewards")
        if name is None and len(ids) > 1:
            raise bad_value(
                "rewards", None, "name a reward structure of the file", "none", remedy=f"choose from {', '.join(ids)}"
            )
        chosen = next(iter(ids)) if name is None else name
        if chosen not in ids:
            raise bad_value("rewards", name, "name a reward structure of the file", f"{name!r}{nearest(name, ids)}")
        entry = listed[ids[chosen]]
        if "probability-type" in entry:
            raise FileFormatError(f"rewards {chosen!r} must be numbers, got distributions", column="rewards")
        parts = [
            self._numbers(f"annotations/rewards/{ids[chosen]}/{what}/values", entry["type"], size)
            if what in entry["applies-to"] else np.zeros(size)
            for what, size in sizes.items()
        ]  # fmt: skip
        return _Rewards(*parts)

    def actions(self, s: IntArray) -> tuple[list[str], IntArray]:
        """Return the names of the actions, and the action of every choice; equal names in one state are numbered."""
        labels = [""] * s.size
        if self.system.get("#choice-actions", 0):
            number = self._array("actions/choices/values", np.uint32, s.size).astype(np.int64)
            words = self._strings("actions/choices", int(self.system["#choice-actions"]))
            labels = [words[i] for i in number.tolist()]
        found: dict[str, int] = {}
        seen: Counter[tuple[int, str]] = Counter()
        result = np.empty(s.size, np.int64)
        for i, (state, label) in enumerate(zip(s.tolist(), labels, strict=True)):
            seen[state, label] += 1
            k = seen[state, label]
            name = (label if k == 1 else f"{label} #{k}") if label else f"choice {k}"
            result[i] = found.setdefault(name, len(found))
        return list(found), result

    def _strings(self, folder: str, count: int) -> list[str]:
        if f"{folder}/string-mapping.bin" not in self.files:
            return [f"action {i}" for i in range(count)]
        content = self.files.get(f"{folder}/strings.bin", b"")
        starts = self._starts(f"{folder}/string-mapping", count, len(content)).tolist()
        return [content[i:j].decode() for i, j in pairwise(starts)]

    def start(self) -> int:
        """Return the initial state of the file."""
        packed = self.files.get("state-is-initial.bin", b"")
        first = np.flatnonzero(np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little")[: self.S])
        if first.size != 1:
            raise bad_value("start", None, "be given", f"a file with {first.size} initial states", remedy="pass start=")
        return int(first[0])

    def state_names(self) -> list[str] | None:
        """Return the variables of every state as text, such as "x=3, done=false"; None without simple, distinct values."""
        classes = self.index.get("valuations", {}).get("states", {}).get("classes", [])
        content = self.files.get("valuations/states/valuations.bin")
        if len(classes) != 1 or content is None or self.S > MAX_STATES_NAMED:
            return None
        parts = [_part(variable) for variable in classes[0]["variables"]]
        size = sum(bits + optional for _, _, bits, optional, _ in parts)
        if (
            size % 8
            or len(content) != self.S * size // 8
            or any(word not in ("", "bool", "int", "uint") for _, word, *_ in parts)
        ):
            return None
        names = [
            _valuation(int.from_bytes(content[i : i + size // 8], "little"), parts)
            for i in range(0, len(content), size // 8)
        ]
        return names if len(set(names)) == self.S and all(names) else None


def _part(variable: dict[str, Any]) -> tuple[str, str, int, bool, int]:
    """Return name, type, bits, whether a bit for presence comes first, and offset; padding has no name and no type."""
    if "padding" in variable:
        return "", "", int(variable["padding"]), False, 0
    kind = variable["type"]
    bits = int(kind.get("size", SIZES.get(kind["type"], 64)))
    return (
        variable["name"], kind["type"], bits, bool(variable.get("is-optional", False)), int(variable.get("offset", 0))
    )  # fmt: skip


def _valuation(packed: int, parts: list[tuple[str, str, int, bool, int]]) -> str:
    said = []
    for name, word, bits, optional, offset in parts:
        present = not optional or packed & 1
        packed >>= int(optional)
        raw = packed & ((1 << bits) - 1)
        packed >>= bits
        if name and present:
            value = raw - (1 << bits) if word == "int" and raw >> (bits - 1) else raw
            said.append(f"{name}={('true' if raw else 'false') if word == 'bool' else value + offset}")
    return ", ".join(said)


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
