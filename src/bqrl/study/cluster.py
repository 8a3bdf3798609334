"""Workers of a Dask cluster: `dask scheduler` on one machine, `dask worker ADDRESS` on any number of them.

A worker carries out one run at a time, so cores are used by processes: `dask worker ADDRESS --nworkers 8 --nthreads 1`. Results
travel back to the machine of the study, which alone writes files.

Dask deserialises pickles, which can execute any code, from every member of the cluster: use it in trusted networks only, and
with TLS (`distributed.Security`) where others can reach the ports.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from bqrl.display import counted
from bqrl.study.workers import LostWorkersError, Workers, carry_out, packed_call, received

CONNECT_SECONDS = 10
LOOK_SECONDS = 5.0  # between two counts of the workers


class ClusterWorkers(Workers):
    """The workers of the Dask scheduler at `address`; `security` is a `distributed.Security` or what Dask's settings say."""

    def __init__(self, address: str, security: Any = None) -> None:
        self.address, self.lost = address, f"the cluster at {address} was lost; finished runs are kept"
        try:
            from distributed import Client
            from distributed.comm.addressing import get_address_host_port
        except ImportError:
            raise ValueError('a cluster needs Dask; install it with: pip install "bqrl[cluster]"') from None
        for name in logging.root.manager.loggerDict:  # our own messages say what matters
            if name.split(".")[0] == "distributed":
                logging.getLogger(name).setLevel(logging.CRITICAL)
        connect: Any = Client  # it has no annotations
        try:
            host, port = get_address_host_port(address)
            if not (host and 0 < port < 65536):
                raise ValueError("expected tcp://HOST:PORT")
            self._client = connect(address, timeout=CONNECT_SECONDS, set_as_default=False, security=security)
        except Exception as error:  # Dask fails in many ways
            why = " ".join(str(error).split())[:120] or type(error).__name__
            raise ConnectionError(
                f"no Dask scheduler answers at {address!r} ({why}); start one with `dask scheduler`"
            ) from None
        self._executor = self._client.get_executor(pure=False)  # pure calls with equal arguments would be merged
        self._looked, self._reported = -LOOK_SECONDS, -1

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Put a call into the scheduler's queue."""
        future: Future[Any] = Future()

        def deliver(answer: Future[Any]) -> None:
            try:
                future.set_result(received(*answer.result()))
            except BaseException as error:  # a worker that was killed or a call that was cancelled is one, too
                future.set_exception(error)

        self._executor.submit(carry_out, *packed_call(function, *arguments)).add_done_callback(deliver)
        return future

    def notes(self) -> list[str]:
        """A line when the number of workers has changed; LostWorkersError if the scheduler is gone."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return []
        self._looked = time.monotonic()
        if self._client.status not in ("running", "connecting"):
            raise LostWorkersError(self.lost)
        try:
            threads = self._client.nthreads()
        except (OSError, TimeoutError):
            return []  # the scheduler may come back; the client gives up by itself
        if len(threads) == self._reported:
            return []
        self._reported = len(threads)
        self.size = max(1, self._reported)
        self.capacity = 4 * self.size  # no worker waits for the machine of the study
        add = "" if threads else f"; add one with `dask worker {self.address} --nthreads 1`"
        number = counted("worker", self._reported) if threads else "no workers"
        return [f"the cluster at {self.address} has {number}{add}"]

    def close(self) -> None:
        """Drop unfinished calls and disconnect; the cluster keeps running."""
        with suppress(Exception):  # nothing to drop where the scheduler is gone
            self._executor.shutdown(wait=False)
        self._client.close(timeout=5)
