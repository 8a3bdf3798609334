"""The identity of code: a digest of a learner's own code, and learners by address.

The digest of a learner covers the bytecode of its class and of every function, class and constant of yours that this code names,
wherever they are defined. Comments and other parts of a file do not count. Installed packages count by their version.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import platform
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePath
from types import CodeType, FunctionType, ModuleType
from typing import Any

import cloudpickle
import numpy as np

from bqrl.checks import bad_value, nearest
from bqrl.errors import ArgumentError
from bqrl.learners.protocol import Learner

ADDRESS = re.compile(r"(?P<place>.+):(?P<name>[A-Za-z_]\w*(\.\w+)*)")  # module:Class or file.py:Class
SKIPPED = (  # attributes of a class that its code does not determine, or that its methods repeat
    "__module__", "__dict__", "__weakref__", "__doc__", "__firstlineno__", "__static_attributes__", "__qualname__",
    "__annotations__", "__annotate_func__", "__annotations_cache__", "__abstractmethods__", "_abc_impl",
)  # fmt: skip
INSTALLED = tuple(str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "purelib", "platlib"))


# -- learners by address ---------------------------------------------------------------------------------------------------


def load_learner(address: str, *folders: Path) -> Any:
    """Return the class or function at "module:Class" or "file.py:Class", which may lie in one of the folders."""
    found = ADDRESS.fullmatch(address)
    if found is None:
        raise bad_value("learner", address, "be written module:Class or file.py:Class")
    place = found["place"]
    places = [folder / place for folder in folders or (Path(),)]
    if place.endswith(".py"):
        module = _module_of_file(next(filter(Path.is_file, places), places[0]), address)
    else:
        module = _module(place, folders or (Path(),), address)
    thing: Any = module
    for part in found["name"].split("."):
        if not hasattr(thing, part):
            own = [name for name, one in vars(module).items() if inspect.isclass(one) and issubclass(one, Learner)]
            text = f"learner must name a class of {place}, got {found['name']!r}{nearest(found['name'], own)}"
            raise ArgumentError(text, name="learner", value=address)
        thing = getattr(thing, part)
    return thing


def _module(name: str, folders: Sequence[Path], address: str) -> ModuleType:
    """Import a module, which may lie in one of the folders."""
    for folder in folders:
        _add_path(folder)
    try:
        return importlib.import_module(name)
    except Exception as fault:  # an import runs any code
        raise _import_error(name, fault, address) from None


def _module_of_file(path: Path, address: str) -> ModuleType:
    """Import a file under a name of its own. It is sent to workers by value, and finds modules beside it."""
    path = path.resolve()
    if not path.is_file():
        near = nearest(path.name, [other.name for other in path.parent.glob("*.py")], listed=False)
        raise ArgumentError(f"learner must name an existing file, got {address!r}{near}", name="learner", value=address)
    content = path.read_bytes()
    # a changed file is read again
    name = f"{path.stem}_{hashlib.sha256(str(path).encode() + content).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    _add_path(path.parent)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        exec(compile(content, str(path), "exec"), vars(module))
    except BaseException as fault:
        del sys.modules[name]
        if isinstance(fault, Exception):
            raise _import_error(path.name, fault, address) from None
        raise
    cloudpickle.register_pickle_by_value(module)
    return module


def _add_path(folder: Path) -> None:
    """Let modules of a folder be imported, after all others."""
    if (place := str(folder.resolve())) not in sys.path:
        sys.path.append(place)


def _import_error(what: str, fault: Exception, address: str) -> ArgumentError:
    reason = " ".join(f"{type(fault).__name__}: {fault}".split())[:200]
    return ArgumentError(f"learner {address!r}: {what} cannot be imported ({reason})", name="learner", value=address)


# -- the digest of a learner -----------------------------------------------------------------------------------------------


def learner_code(learner: Any) -> str:
    """Return a digest of the code of a class or function that is not part of this package; "" for parts of it.

    >>> learner_code(Learner)
    ''
    """
    if _home(learner) == "bqrl":
        return ""
    sha, seen = hashlib.sha256(platform.python_version().rpartition(".")[0].encode()), dict[int, Any]()
    for text in _code_texts(learner, seen):
        sha.update(text.encode(errors="surrogatepass") + b"\0")
    return sha.hexdigest()[:16]


def _home(thing: Any) -> str:
    """Return the installed package that a thing belongs to; "" for code of the user."""
    name = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", None)
    root = str(name or "").partition(".")[0]
    if root == "__main__":
        return ""
    if root in ("bqrl", "builtins", "typing") or root in sys.stdlib_module_names:
        return root
    file = getattr(sys.modules.get(root), "__file__", None)
    return root if file is not None and str(Path(file).resolve()).startswith(INSTALLED) else ""


def _code_texts(thing: Any, seen: dict[int, Any]) -> Iterator[str]:
    """Yield what identifies a thing: code as its bytecode, data as its values, anything else as its type."""
    walk = partial(_code_texts, seen=seen)
    if isinstance(thing, (str, bytes, int, float, complex, type(None), type(...), np.generic, PurePath)):
        yield repr(thing)
        return
    if id(thing) in seen:
        return
    seen[id(thing)] = thing  # alive, so that no other thing gets its id
    if isinstance(thing, CodeType):
        yield f"{thing.co_name}{thing.co_argcount}{thing.co_varnames}{thing.co_names}{thing.co_code.hex()}"
        for constant in thing.co_consts:
            yield from walk(constant)
    elif isinstance(thing, (frozenset, set)):
        yield from sorted("".join(walk(one)) for one in thing)
    elif isinstance(thing, (tuple, list)):
        for one in thing:
            yield from walk(one)
    elif isinstance(thing, Mapping):
        for key, value in thing.items():
            yield from walk(key)
            yield from walk(value)
    elif isinstance(thing, np.ndarray):
        yield f"{thing.dtype}{thing.shape}{thing.tobytes().hex() if thing.dtype.kind != 'O' else ''}"
    elif isinstance(thing, property):
        yield from walk((thing.fget, thing.fset, thing.fdel))
    elif package := _home(thing if isinstance(thing, (ModuleType, FunctionType, type)) else type(thing)):
        version = getattr(sys.modules.get(package), "__version__", "") if package != "bqrl" else ""
        yield f"{package} {version} {getattr(thing, '__qualname__', type(thing).__qualname__)}"
        for inner in (
            "__wrapped__",
            "__func__",
            "func",
            "args",
            "keywords",
        ):  # attributes of decorated functions, methods and partials
            if package != "bqrl" and inner in dir(thing):
                yield from walk(getattr(thing, inner))
        if not (callable(thing) or isinstance(thing, ModuleType)):
            with suppress(Exception):  # pickling runs any code; what cannot be pickled counts by its type
                yield hashlib.sha256(cloudpickle.dumps(thing)).hexdigest()
    elif isinstance(thing, ModuleType):
        file = getattr(thing, "__file__", None)
        yield (
            Path(file).read_text(encoding="utf-8", errors="replace")
            if file and Path(file).is_file()
            else thing.__name__
        )
    elif isinstance(thing, FunctionType):
        yield from _function_texts(thing, walk)
    elif isinstance(thing, type):
        yield thing.__qualname__
        for base in thing.__bases__:
            yield from walk(base)
        for name, value in vars(thing).items():
            if name not in SKIPPED:
                yield name
                yield from walk(value)
    else:  # an object of the user's own class
        yield from walk(type(thing))
        yield from walk(getattr(thing, "__dict__", {}))


def _function_texts(function: FunctionType, walk: Any) -> Iterator[str]:
    """Yield what identifies a function: its code, defaults, closure, and the globals that its code names."""
    yield from walk(function.__code__)
    yield from walk((function.__defaults__, function.__kwdefaults__ or {}))
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # an empty cell
            yield from walk(cell.cell_contents)
    codes, names = [function.__code__], dict[str, None]()
    while codes:
        code = codes.pop()
        names |= dict.fromkeys(code.co_names)
        codes += [one for one in code.co_consts if isinstance(one, CodeType)]
    for name in names:
        if name in function.__globals__:
            yield name
            yield from walk(function.__globals__[name])
