"""What `wasm-kernel worker` has Dask load in each of its processes: the image, before the first call needs it."""

from __future__ import annotations

import asyncio
from typing import Any

from wasm_kernel.errors import ImageMissing
from wasm_kernel.host.cluster import tasks


async def dask_setup(worker: Any) -> None:
    """Dask calls this when the worker starts. `ImageMissing`: there is no image that it could use."""
    station = await asyncio.to_thread(tasks.station_of, worker)
    if station.identity["problem"]:
        raise ImageMissing(station.identity["problem"])


async def dask_teardown(worker: Any) -> None:
    """Dask calls this when the worker ends in an orderly way."""
    await asyncio.to_thread(tasks.close_station)
