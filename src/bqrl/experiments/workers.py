"""Runs carried out by processes of this machine: one compute thread each, started once and fed until the study ends.

A process that dies costs the run that it was at: another takes its place, and the run is repeated.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, Protocol

from bqrl.experiments.single import RunSpec, Took, execute, fingerprint

ONE_THREAD = (
    "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip
MAX_DEATHS = 3  # of processes at the same run before it counts as failed


class Event(NamedTuple):
    """What became of a run: "done", "failed", "at" (an episode), or a "note" that concerns none."""

    kind: str
    run: RunSpec | None = None
    content: bytes = b""
    took: Took = Took(0.0, 0.0)
    at: int = 0
    text: str = ""  # one line about a failure
    trace: str = ""  # and the whole of it, for the log


class Workers(Protocol):
    """Whoever carries out runs."""

    @property
    def size(self) -> int:
        """How many runs proceed at a time."""

    def submit(self, run: RunSpec) -> None:
        """Put a run in the queue."""

    def wait(self, timeout: float) -> list[Event]:
        """What has happened, after at most `timeout` seconds."""

    def close(self) -> None:
        """Stop at once; what is not finished is dropped."""


class LocalWorkers:
    """Processes of this machine."""

    def __init__(self, size: int | None = None) -> None:
        self._size = max(1, available_cores() if size is None else size)
        self._queue: deque[RunSpec] = deque()
        self._hands: list[_Hand] = []
        self._deaths: Counter[RunSpec] = Counter()
        self._vain = 0  # deaths since a process was last heard

    @property
    def size(self) -> int:
        """How many processes."""
        return self._size

    def submit(self, run: RunSpec) -> None:
        """Put a run in the queue."""
        self._queue.append(run)

    def wait(self, timeout: float) -> list[Event]:
        """Hand out runs, then wait for messages and deaths."""
        self._hand_out()
        if not self._hands:
            return []
        ready = wait([part for hand in self._hands for part in (hand.pipe, hand.process.sentinel)], timeout)
        events: list[Event] = []
        for hand in list(self._hands):
            if hand.pipe in ready or hand.process.sentinel in ready:
                if hand.process.sentinel in ready:
                    hand.process.join(5.0)  # it is ending: what it has said before is complete
                heard = hand.messages()
                self._vain = 0 if heard else self._vain
                events += heard + ([] if hand.process.is_alive() else self._bury(hand))
        self._hand_out()
        return events

    def _hand_out(self) -> None:
        """Every process gets a run, and a second one to begin without waiting while there are plenty."""
        while self._queue and len(self._hands) < self._size and all(hand.runs for hand in self._hands):
            self._hands.append(_Hand())
            self._hands[-1].give(self._queue.popleft())
        for depth in (1, 2):
            for hand in self._hands:
                if len(hand.runs) < depth and len(self._queue) > (0 if depth == 1 else self._size):
                    hand.give(self._queue.popleft())

    def _bury(self, hand: _Hand) -> list[Event]:
        self._hands.remove(hand)
        code = hand.stop()
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
        self._vain += 1
        if self._vain > MAX_DEATHS * self._size:
            raise ChildProcessError(
                f"worker processes die before they have done anything (the last one {how}); finished runs are kept. A"
                " script must start a study under `if __name__ == '__main__':`"
            )
        self._queue.extendleft(reversed(list(hand.runs)[1:]))
        if not hand.runs:
            return [Event("note", text=f"a worker process {how} between two runs; another takes its place")]
        run = hand.runs[0]
        self._deaths[run] += 1
        if self._deaths[run] >= MAX_DEATHS:
            return [Event("failed", run, text=f"its worker process {how}, {MAX_DEATHS} times in a row")]
        self._queue.appendleft(run)
        return [Event("note", text=f"a worker process {how}; its run is repeated: {run}")]

    def close(self) -> None:
        """Stop the processes at once."""
        for hand in self._hands:
            hand.stop()
        self._hands.clear()
        self._queue.clear()


class _Hand:
    """One process, its pipe, and the runs that it has been given."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.runs: deque[RunSpec] = deque()
        self.process = context.Process(target=serve, args=(theirs, fingerprint()), daemon=True)
        with _inherited():
            self.process.start()
        theirs.close()  # so that the end of the process is the end of the pipe

    def give(self, run: RunSpec) -> None:
        self.runs.append(run)
        try:
            self.pipe.send(run)
        except OSError:
            pass  # it has just died, and will be found dead

    def messages(self) -> list[Event]:
        events = []
        try:
            while self.pipe.poll():
                kind, *rest = self.pipe.recv()
                run = self.runs[0] if kind == "at" else self.runs.popleft()
                if kind == "at":
                    events.append(Event("at", run, at=rest[0]))
                elif kind == "done":
                    events.append(Event("done", run, rest[0], rest[1]))
                else:
                    events.append(Event("failed", run, text=rest[0], trace=rest[1]))
        except (EOFError, OSError):
            pass  # nothing more will come
        return events

    def stop(self) -> int | None:
        self.process.terminate()
        self.process.join(5.0)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()
        return self.process.exitcode


def serve(pipe: Connection[Any, Any], code: str) -> None:
    """Carry out what comes through the pipe until it closes: the life of a worker process."""
    try:
        while True:
            run = pipe.recv()
            try:
                check_code(code)
                answer: tuple[Any, ...] = ("done", *execute(run, lambda at: pipe.send(("at", at))))
            except (BrokenPipeError, ConnectionError):
                return  # nobody listens any more
            except Exception as fault:
                answer = ("failed", one_line(fault), traceback.format_exc())
            pipe.send(answer)
    except (EOFError, OSError):
        return


def check_code(code: str) -> None:
    """RuntimeError where this process runs other code than the one that began the study."""
    if fingerprint() != code:
        raise RuntimeError(
            f"this worker has bqrl {fingerprint()}, the study was begun by {code}; use the same everywhere"
        )


def one_line(fault: BaseException) -> str:
    """Kind and message of an error."""
    return " ".join(f"{type(fault).__name__}: {fault}".split())[:300]


def available_cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


@contextmanager
def _inherited() -> Iterator[None]:
    """What a new process must find from its first moment: one thread for every library, and no ear for Ctrl-C."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    main = threading.current_thread() is threading.main_thread()
    old = signal.signal(signal.SIGINT, signal.SIG_IGN) if main else None
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGINT, old)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
