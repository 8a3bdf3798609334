"""Calls carried out by worker processes through the standard interface of `concurrent.futures`.

`LocalWorkers` is a pool of spawned processes with one compute thread each. If a process dies, the pool breaks: it is rebuilt and
the unfinished calls are submitted again. `Work` keeps a queue of calls on any such executor; a call that was running at three
deaths counts as failed. After the first death the suspects run one at a time, so no call fails for the fault of another.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple

from bqrl.checks import whole

ONE_THREAD = (
    "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip
MAX_DEATHS = 3  # of processes at the same call before it counts as failed
MAX_VAIN = 9  # deaths in a row without any result before the whole work is given up


class Played:
    """Episodes of unfinished runs: those of this process or, in the worker processes of a pool, of all of them."""

    def __init__(self) -> None:
        self.count: Any = SimpleNamespace(value=0, get_lock=nullcontext)

    def add(self, episodes: int) -> None:
        """Count further episodes; a run that ends takes its own away."""
        with self.count.get_lock():
            self.count.value += episodes


PLAYED = Played()


class Workers:
    """Whatever carries out calls. This class does so in the calling process, at once, when a call is submitted."""

    size = 1  # how many calls proceed at a time
    capacity = 1  # how many calls may be submitted at a time

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Submit one call."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future

    def notes(self) -> list[str]:
        """What the user should know since the last call: workers that came or went."""
        return []

    def played(self) -> int:
        """Episodes of unfinished runs, as far as they are known."""
        return int(PLAYED.count.value)

    def rebuild(self) -> None:
        """Replace an executor that a dead process has broken; the next call starts another."""
        self.close()

    def close(self) -> None:
        """Stop at once; unfinished calls are dropped."""


class LocalWorkers(Workers):
    """Processes of this machine; all cores unless `size` is given."""

    def __init__(self, size: int | None = None) -> None:
        self.size = available_cores() if size is None else whole(size, "workers", 1)
        self.capacity = self.size + 1  # so that no process waits for the next call
        self._pool: ProcessPoolExecutor | None = None
        self._count: Any = None

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Submit one call; a process is started if none is idle."""
        with _inherited():
            if self._pool is None:
                context = multiprocessing.get_context("spawn")
                self._count = context.Value("q", 0)
                self._pool = ProcessPoolExecutor(self.size, context, initializer=_begin, initargs=(self._count,))
            return self._pool.submit(function, *arguments)

    def played(self) -> int:
        """Episodes that the processes have counted."""
        count = self._count  # without its lock, whose owner may be dead
        return 0 if count is None else int(count.get_obj().value)

    def close(self) -> None:
        """Kill the processes. Results travel through the parent, so nothing is left half written."""
        if self._pool is not None:
            processes = list((self._pool._processes or {}).values())  # public from Python 3.14 on, as kill_workers()
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.kill()
            for process in processes:
                process.join()
            self._pool = self._count = None


class Outcome(NamedTuple):
    """How a call ended: with a value or with an error."""

    key: str
    value: Any = None
    error: BaseException | None = None


class _Call(NamedTuple):
    key: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class Work:
    """Calls on workers, each until it has a value, an error, or three dead processes."""

    def __init__(self, workers: Workers, say: Callable[[str], None]) -> None:
        self.workers, self.say = workers, say
        self._queue: deque[_Call] = deque()
        self._suspects: deque[_Call] = deque()  # were running when a process died; they run alone
        self._running: dict[Future[Any], _Call] = {}
        self._deaths: Counter[str] = Counter()
        self._vain = 0  # deaths since the last result

    def submit(self, key: str, function: Callable[..., Any], *arguments: Any, first: bool = False) -> None:
        """Add a call to the queue, in front if `first`."""
        (self._queue.appendleft if first else self._queue.append)(_Call(key, function, arguments))

    def wait(self, timeout: float) -> list[Outcome]:
        """Calls that have ended, after at most `timeout` seconds."""
        for note in self.workers.notes():
            self.say(note)
        self._hand_out()
        done, _ = wait_for(list(self._running), timeout, FIRST_COMPLETED)
        outcomes, broken = [], False
        for future in done:
            call = self._running[future]
            try:
                outcomes.append(Outcome(call.key, future.result()))
                self._vain = 0
            except (BrokenExecutor, CancelledError):
                broken = True
                continue
            except Exception as error:
                outcomes.append(Outcome(call.key, error=error))
                self._vain = 0
            del self._running[future]
        return outcomes + (self._after_death() if broken else [])

    def _hand_out(self) -> None:
        alone = bool(self._suspects)
        source = self._suspects if alone else self._queue
        limit = 1 if alone else self.workers.capacity
        while source and len(self._running) < limit:
            call = source.popleft()
            try:
                self._running[self.workers.submit(call.function, *call.arguments)] = call
            except BrokenExecutor:  # the pool broke between two calls
                source.appendleft(call)
                if not self._running:
                    self._count_death()
                    self.workers.rebuild()
                    continue
                return

    def _after_death(self) -> list[Outcome]:
        """Rebuild the pool and put back what was running; returns the calls that have failed for good."""
        self._count_death()
        self.workers.rebuild()
        calls, self._running = list(self._running.values()), {}
        failed: list[Outcome] = []
        for call in calls:
            self._deaths[call.key] += 1
            if self._deaths[call.key] < MAX_DEATHS:
                self._suspects.append(call)
            else:
                error = ChildProcessError(f"its worker process died {MAX_DEATHS} times")
                failed.append(Outcome(call.key, error=error))
        again = len(calls) - len(failed)
        if again:
            self.say(f"a worker process died; {again} {'run is' if again == 1 else 'runs are'} repeated")
        return failed

    def _count_death(self) -> None:
        self._vain += 1
        if self._vain > MAX_VAIN:
            raise ChildProcessError(
                f"{self._vain} worker processes in a row died before they returned anything; finished runs are kept."
                " A script must start its work under `if __name__ == '__main__':`"
            )


def available_cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _begin(count: Any) -> None:
    """Start of a worker process: it ignores SIGINT and ends with its parent, even if that is killed."""
    PLAYED.count = count
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _inherited() -> Iterator[None]:
    """Start processes with one thread per library, and with SIGINT blocked from their first moment.

    A signal that arrives meanwhile reaches this process afterwards; it is not lost.
    """
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    masks = hasattr(signal, "pthread_sigmask")  # not on Windows
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if masks else set()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if masks:
            signal.pthread_sigmask(signal.SIG_SETMASK, old)
