"""Runs carried out by a Dask cluster: `dask scheduler` on one machine, `dask worker ADDRESS` on any number of them.

A worker does one run at a time, so cores are used by processes: `dask worker ADDRESS --nworkers 8 --nthreads 1`. Results
travel back to the machine that holds the study, which alone writes files; workers need bqrl and nothing else.
"""

from __future__ import annotations

import logging
import queue
import time
import traceback
from typing import Any

from bqrl.experiments.single import RunSpec, Took, execute, fingerprint
from bqrl.experiments.workers import Event, check_code, one_line

CONNECT_SECONDS = 10
LOOK_SECONDS = 5.0  # between two looks at who is there


class ClusterWorkers:
    """The workers of a Dask cluster."""

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client

            connect: Any = Client  # it carries no types
        except ImportError:
            raise ValueError("a cluster needs Dask; install it with: pip install 'bqrl[cluster]'") from None
        for name in logging.root.manager.loggerDict:  # what matters is told by our own lines
            if name.split(".")[0] == "distributed":
                logging.getLogger(name).setLevel(logging.CRITICAL)
        self.address = address
        try:
            self._client = connect(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, RuntimeError) as fault:
            raise ConnectionError(
                f"no Dask scheduler answers at {address} ({one_line(fault)}); start one with `dask scheduler`"
            ) from None
        self._futures: dict[Any, RunSpec] = {}
        self._finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._looked, self._size, self._told = -LOOK_SECONDS, 0, -1
        self._notes = self._look()

    @property
    def size(self) -> int:
        """How many workers there are, or 1 while there are none."""
        return max(1, self._size)

    def submit(self, run: RunSpec) -> None:
        """Put a run in the scheduler's queue."""
        future = self._client.submit(carry_out, run, fingerprint(), pure=False, key=f"bqrl-{run.name}-{time.time_ns()}")
        self._futures[future.key] = run
        future.add_done_callback(self._finished.put)

    def wait(self, timeout: float) -> list[Event]:
        """Results that have come in; a lost cluster is a ConnectionError."""
        events, self._notes = self._notes + self._look(), []
        try:
            events.append(self._event(self._finished.get(timeout=timeout)))
            while True:
                events.append(self._event(self._finished.get_nowait()))
        except queue.Empty:
            return events

    def _event(self, future: Any) -> Event:
        run = self._futures.pop(future.key)
        try:
            if future.status in ("cancelled", "lost"):
                raise ConnectionError
            fault = future.exception() if future.status == "error" else None
            if fault is None:
                return Event("done", run, *future.result())
            trace = "".join(traceback.format_exception(fault))
            return Event("failed", run, text=one_line(fault), trace=trace)
        except (OSError, TimeoutError) as lost:
            raise ConnectionError(f"the cluster at {self.address} was lost; finished runs are kept") from lost
        finally:
            future.release()

    def _look(self) -> list[Event]:
        """How many workers there are; tells when that changes to or from none."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return []
        self._looked = time.monotonic()
        if self._client.status not in ("running", "connecting"):
            raise ConnectionError(f"the cluster at {self.address} was lost; finished runs are kept")
        try:
            threads = self._client.nthreads()
        except (OSError, TimeoutError):
            return []  # the scheduler may come back; the client gives up in its own time
        self._size = len(threads)
        if self._size == self._told:
            return []
        self._told = self._size
        if not self._size:
            return [
                Event(
                    "note", text=f"the cluster at {self.address} has no workers; `dask worker {self.address}` adds one"
                )
            ]
        idle = sum(threads.values()) - self._size
        hint = f"; {idle} of their threads stay idle: start workers with --nthreads 1 --nworkers N" if idle else ""
        return [Event("note", text=f"the cluster at {self.address} has {self._size} workers{hint}")]

    def close(self) -> None:
        """Drop what is not finished and leave; the cluster stays."""
        for future in list(self._futures):
            try:
                self._client.cancel([future], force=True)
            except Exception:
                break
        self._client.close(timeout=5)


def carry_out(run: RunSpec, code: str) -> tuple[bytes, Took]:
    """The result of a run, on a worker of the cluster."""
    check_code(code)
    return execute(run)
