"""Workers carry out calls; `submit` returns a future, like the executors of `concurrent.futures`.

`Workers` makes calls in this process. `LocalWorkers` are spawned processes with one compute thread each. Each process has its
own pool: if a process dies, only its current call is repeated. A call fails if three processes die during it. Calls are sent by
cloudpickle, including code that the main script or a notebook defines, so processes never import the main script. Results are
plain data, so that they contain no copies of classes of that script.

`ClusterWorkers` are the workers of a Dask cluster: `dask scheduler` on one machine, `dask worker ADDRESS` on any number of
machines. A worker carries out one run at a time, so several cores need several processes: `dask worker ADDRESS --nworkers 8
--nthreads 1`. Results are sent to the machine of the study, and only that machine writes files. Dask deserialises pickles, which
can execute any code, from every member of the cluster: use it in trusted networks only, and with TLS (`distributed.Security`) if
others can reach the ports.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, MutableMapping
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import cloudpickle

from bqrl.checks import one_line, whole
from bqrl.display import count_of
from bqrl.planners.cluster import LOOK_SECONDS, LostWorkersError, UnusableWorkerError, connect
from bqrl.versions import fingerprint

ONE_THREAD = (
    "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip
MAX_DEATHS = 3  # number of processes that may die during a call before it counts as failed

PLAYED = SimpleNamespace(count=SimpleNamespace(value=0))  # episodes of the unfinished run of this process


class Workers:
    """Carries out calls; this class runs calls synchronously, in the calling process."""

    size = 1  # number of calls carried out at a time
    capacity = 1  # number of calls that may be submitted at a time
    lost = "the workers were lost; finished runs are kept"  # message for a cancelled call

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Submit one call."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future

    def notes(self) -> list[str]:
        """Messages since the last call of this method, such as a changed number of workers."""
        return []

    def played(self) -> int:
        """Episodes of unfinished runs, as far as they are known."""
        return int(PLAYED.count.value)

    def close(self) -> None:
        """Stop at once; unfinished calls are dropped."""


class LocalWorkers(Workers):
    """Processes of this machine, by default one per core. One thread waits for each process."""

    _starting = threading.Lock()  # shared by all workers: a start changes the environment for a moment

    def __init__(self, size: int | None = None) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.size = cores if size is None else whole(size, "workers", 1)
        self.capacity = 2 * self.size  # the processes proceed while the caller stores results
        self._threads = ThreadPoolExecutor(self.size, initializer=_block_interrupts)
        self._pools: dict[int, tuple[ProcessPoolExecutor, Any]] = {}  # by thread: one process and its counter
        self._closed = False

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Submit one call; it fails if its process dies three times."""
        return self._threads.submit(self._call, function, *arguments)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Carry out a call in the process of this thread; if the process dies, repeat it in a new one."""
        sent = cloudpickle.dumps((function, arguments))
        for _ in range(MAX_DEATHS):
            try:
                answer = self._process().submit(carry_out, fingerprint(), sent).result()
            except BrokenExecutor:
                self._pools.pop(threading.get_ident(), None)
            else:
                return unpack_answer(*answer)
        raise ChildProcessError(f"its worker process died {MAX_DEATHS} times")

    def _process(self) -> ProcessPoolExecutor:
        """The process of this thread, started if necessary."""
        with self._starting:
            if self._closed:
                raise CancelledError
            key = threading.get_ident()
            if key not in self._pools:
                context = multiprocessing.get_context("spawn")
                count = context.RawValue("q", 0)  # only one process writes it
                self._pools[key] = ProcessPoolExecutor(1, context, initializer=_begin, initargs=(count,)), count
                environment, main = os.environ, vars(sys.modules["__main__"])
                hidden = dict.fromkeys(("__file__", "__spec__"))  # a process would find the main script by these
                with _override(environment, dict.fromkeys(ONE_THREAD, "1")), _override(main, hidden):
                    self._pools[key][0].submit(int)  # starts the process, which inherits the environment
            return self._pools[key][0]

    def played(self) -> int:
        """Episodes that the processes have counted."""
        return sum(int(count.value) for _, count in list(self._pools.values()))

    def close(self) -> None:
        """Kill the processes. Results travel through the parent, so nothing is left half written."""
        with self._starting:
            self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for pool, _ in list(self._pools.values()):
            for process in list((pool._processes or {}).values()):  # from Python 3.14 on: kill_workers()
                process.kill()
            pool.shutdown(cancel_futures=True)  # waits for its thread, which the end of the interpreter could disturb
        self._pools = {}


class ClusterWorkers(Workers):
    """The workers of the Dask scheduler at `address`; `security` is a `distributed.Security`, by default from Dask's settings."""

    def __init__(self, address: str, security: Any = None) -> None:
        self.address, self.lost = address, f"the cluster at {address} was lost; finished runs are kept"
        self._client = connect(address, security)
        self._executor = self._client.get_executor(pure=False)  # Dask would merge pure calls with equal arguments
        self._looked, self._reported = -LOOK_SECONDS, -1

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Put a call into the scheduler's queue."""
        future: Future[Any] = Future()

        def call(code: str, sent: bytes) -> Any:  # sent by value: a worker may have another bqrl or none
            return import_module("bqrl.study.workers").carry_out(code, sent)

        def deliver(answer: Future[Any]) -> None:
            try:
                try:
                    found = answer.result()
                except ImportError as error:  # raised by `call`; errors of a run are part of the answer
                    raise UnusableWorkerError(str(error)) from None
                future.set_result(unpack_answer(*found))
            except BaseException as error:  # includes killed workers and cancelled calls
                future.set_exception(error)

        sent = cloudpickle.dumps((function, arguments))
        self._executor.submit(call, fingerprint(), sent).add_done_callback(deliver)
        return future

    def notes(self) -> list[str]:
        """A line if the number of workers has changed; raises LostWorkersError if the scheduler is gone."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return []
        self._looked = time.monotonic()
        if self._client.status not in ("running", "connecting"):
            raise LostWorkersError(self.lost)
        try:
            threads = self._client.nthreads()
        except (OSError, TimeoutError):
            return []  # the scheduler may come back; the client gives up after a while
        if len(threads) == self._reported:
            return []
        self._reported = len(threads)
        self.size = max(1, self._reported)
        self.capacity = 4 * self.size  # so that no worker waits for the machine of the study
        add = "" if threads else f"; add one with `dask worker {self.address} --nthreads 1`"
        number = count_of("worker", self._reported) if threads else "no workers"
        return [f"the cluster at {self.address} has {number}{add}"]

    def close(self) -> None:
        """Drop unfinished calls and disconnect; the cluster keeps running."""
        with suppress(Exception):  # the scheduler may be gone
            self._executor.shutdown(wait=False)
        self._client.close(timeout=5)


@contextmanager
def _override(place: MutableMapping[str, Any], values: dict[str, Any]) -> Iterator[None]:
    """Change entries of a mapping within a `with` block."""
    before = {name: place[name] for name in values if name in place}
    place.update(values)
    try:
        yield
    finally:
        for name in values:
            del place[name]
        place.update(before)


def _block_interrupts() -> None:
    """Initialise a thread, so that processes started by it never receive SIGINT, not even at their start."""
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _begin(count: Any) -> None:
    """Initialise a worker process: it ignores SIGINT and ends with its parent, even if the parent is killed."""
    PLAYED.count, parent = count, multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()


def carry_out(code: str, sent: bytes) -> tuple[Any, bytes, Exception | None]:
    """Carry out a call in a worker process and return its result, or its error pickled and as a plain RuntimeError."""
    if fingerprint() != code:
        raise UnusableWorkerError(f"expected bqrl {code}, got {fingerprint()}")
    function, arguments = pickle.loads(sent)
    try:
        return function(*arguments), b"", None
    except Exception as error:
        kind, found, note = type(error), b"", f"In a worker process:\n{traceback.format_exc()}"
        plain = RuntimeError(f"{kind.__name__}: {error}")
        plain.add_note(note)
        error.add_note(note)
        for field, value in vars(error).items():
            try:
                pickle.dumps(value)
            except Exception:  # such as a function in place of a policy
                vars(error)[field] = one_line(value)
        named = {kind.__name__: kind} if kind.__module__ == "__main__" else {}  # as in the main script
        with suppress(Exception), _override(vars(sys.modules["__main__"]), named):  # not every error can be pickled
            found = pickle.dumps(error)
        return None, found, plain


def unpack_answer(result: Any, found: bytes, error: Exception | None) -> Any:
    """The result in an answer of `carry_out`; raises the error if the call raised one."""
    if error is not None:
        with suppress(Exception):  # its class may be unknown here, or need other arguments
            error = pickle.loads(found)
        raise error
    return result
