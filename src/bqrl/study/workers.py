"""Calls carried out by worker processes through the standard interface of `concurrent.futures`.

`LocalWorkers` are spawned processes with one compute thread each, every one in a pool of its own: if a process dies, only the
call that it was at is repeated. `Work` keeps a queue of calls on any workers; a call at which three processes died has failed.
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
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

from bqrl.checks import whole

ONE_THREAD = (
    "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip
MAX_DEATHS = 3  # of processes at the same call before it counts as failed
MAX_VAIN = 9  # deaths in a row without any result before the whole work is given up

PLAYED = SimpleNamespace(count=SimpleNamespace(value=0))  # episodes of the unfinished run of this process


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

    def check(self) -> None:
        """Raise an error if the death of a worker means that all are lost."""

    def close(self) -> None:
        """Stop at once; unfinished calls are dropped."""


class _Process:
    """A pool of one process, the call that it is at, and the episodes that it has counted."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.count = context.RawValue("q", 0)  # one process writes it
        self.pool = ProcessPoolExecutor(1, context, initializer=_begin, initargs=(self.count,))
        self.call = self.pool.submit(function, *arguments)

    def kill(self) -> None:
        """End the process."""
        processes = list((self.pool._processes or {}).values())  # public from Python 3.14 on, as kill_workers()
        self.pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()
            process.join()


class LocalWorkers(Workers):
    """Processes of this machine; all cores unless `size` is given."""

    def __init__(self, size: int | None = None) -> None:
        self.size = self.capacity = available_cores() if size is None else whole(size, "workers", 1)
        self._processes: list[_Process] = []

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Submit one call to an idle process, or to a new one."""
        with _inherited():
            for one in list(self._processes):
                if one.call.done():
                    try:
                        one.call = one.pool.submit(function, *arguments)
                        return one.call
                    except BrokenExecutor:  # it died at its last call or since
                        self._processes.remove(one)
            self._processes.append(_Process(function, *arguments))
        return self._processes[-1].call

    def played(self) -> int:
        """Episodes that the processes have counted."""
        return sum(int(one.count.value) for one in self._processes)

    def close(self) -> None:
        """Kill the processes. Results travel through the parent, so nothing is left half written."""
        for one in self._processes:
            one.kill()
        self._processes = []


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
        outcomes = []
        for future in wait_for(list(self._running), timeout, FIRST_COMPLETED).done:
            call = self._running.pop(future)
            try:
                outcomes.append(Outcome(call.key, future.result()))
                self._vain = 0
            except (BrokenExecutor, CancelledError):
                outcomes += self._after_death(call)
            except Exception as error:
                outcomes.append(Outcome(call.key, error=error))
                self._vain = 0
        if self.workers.capacity > 1:  # the processes proceed while the caller stores the outcomes
            self._hand_out()
        return outcomes

    def _hand_out(self) -> None:
        """Submit calls as long as workers are free."""
        while self._queue and len(self._running) < self.workers.capacity:
            call = self._queue.popleft()
            self._running[self.workers.submit(call.function, *call.arguments)] = call

    def _after_death(self, call: _Call) -> list[Outcome]:
        """Repeat a call whose process died, unless it has failed for good."""
        self.workers.check()
        self._vain += 1
        if self._vain > MAX_VAIN:
            raise ChildProcessError(
                f"{self._vain} worker processes in a row died before they returned anything; finished runs are kept."
                " A script must start its work under `if __name__ == '__main__':`"
            )
        self._deaths[call.key] += 1
        if self._deaths[call.key] == MAX_DEATHS:
            return [Outcome(call.key, error=ChildProcessError(f"its worker process died {MAX_DEATHS} times"))]
        self.say("a worker process died; its run is repeated")
        self._queue.appendleft(call)
        return []


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
