"""Which request the guest's output is shown with.

Output belongs to the request that is being answered, until the guest says that what follows comes from an asyncio task
of an earlier one. The guest can name only requests that it was given itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wasm_kernel.guest import wire
from wasm_kernel.kernel.outputs import Outputs

Message = dict[str, Any]
_MOST = 1000  # requests that are remembered; an older one's tasks print where the last cell does


@dataclass(frozen=True)
class Request:
    """A request that the guest was given.

    Attributes:
        parent: The message.
        number: The cell's number; 0 for a widget's message.
        silent: Whether nothing of it is shown.
    """

    parent: Message
    number: int = 0
    silent: bool = False


class Attribution:
    """The requests whose tasks may still print."""

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs
        self._requests: OrderedDict[str, Request] = OrderedDict()

    def of(self, request: Request) -> Callable[[wire.Event], None]:
        """Shows what the guest gives while it answers this request, or goes on with its tasks afterwards."""
        self._requests[str(request.parent.get("header", {}).get("msg_id", ""))] = request
        while len(self._requests) > _MOST:
            self._requests.popitem(last=False)
        present = request

        def show(event: wire.Event) -> None:  # on the sandbox's thread
            nonlocal present
            if isinstance(event, wire.Parent):
                present = self._requests.get(event.msg_id, request)
            else:
                self._outputs.show(event, present.parent, number=present.number, silent=present.silent)

        return show
