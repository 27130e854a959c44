"""`wasm-kernel worker`: a Dask worker for the sessions of others, with the image checked and preloaded."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import Any

from wasm_kernel.apps.cli_parser import DONE, add
from wasm_kernel.errors import ClusterError, ConfigurationError
from wasm_kernel.model import cluster_addresses

_PRELOAD = "wasm_kernel.host.cluster.preload"


def register(commands: Any) -> None:
    """Add the command to a parser."""
    worker = add(
        commands,
        "worker",
        worker_command,
        "Start a Dask worker that runs calls of sessions, with the image loaded.",
        more="What follows the address are options of `dask worker`: --nthreads, --nworkers,\n"
        "--memory-limit, --tls-ca-file, --tls-cert, --tls-key and the others. It runs\n"
        "until it is stopped, or its scheduler is gone for too long.",
        examples="wasm-kernel worker tcp://scheduler:8786\n"
        "wasm-kernel worker tls://scheduler:8786 --nthreads 8 --tls-ca-file ca.pem",
    )
    worker.add_argument("address", metavar="ADDRESS", help="of the scheduler: tcp://HOST:8786 or tls://HOST:8786")
    more = worker.add_argument("options", metavar="OPTION", nargs=argparse.REMAINDER, help="options of `dask worker`")
    more.required = False  # else argparse names it among what is missing


def worker_command(options: argparse.Namespace) -> int:
    """Run the worker until it ends."""
    if find_spec("distributed") is None:
        raise ConfigurationError("a worker needs the extra 'dask': pip install 'wasm-kernel[dask]'")
    address = cluster_addresses.parse(options.address)
    from wasm_kernel.host.image import image

    image.load().modules()  # what is wrong is said here, and not by a child that is started again and again
    from distributed.cli.dask_worker import main

    arguments = [str(address), "--preload", _PRELOAD, *options.options]
    try:
        main.main(args=arguments, prog_name="wasm-kernel worker", standalone_mode=True)
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else int(bool(e.code))
    except (RuntimeError, OSError) as e:
        why = e.__cause__ or e  # Dask's own says no more than that something failed to start
        raise ClusterError(f"the worker did not start: {why}; check that a scheduler listens at {address}") from e
    return DONE
