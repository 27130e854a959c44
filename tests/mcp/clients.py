"""The SDK's own client, connected to a real server in its own process."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult, ImageContent, TextContent


class Agent:
    """Calls tools, as an agent does."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> CallToolResult:
        """Whatever comes back."""
        result = await self.client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        return result

    async def told(self, tool: str, **arguments: Any) -> str:
        """The text of a call that worked."""
        result = await self.call(tool, **arguments)
        assert not result.is_error, texts(result)
        return "\n".join(texts(result))

    async def refused(self, tool: str, **arguments: Any) -> str:
        """The text of a call that did not."""
        result = await self.call(tool, **arguments)
        assert result.is_error, texts(result)
        return "\n".join(texts(result))


def texts(result: CallToolResult) -> list[str]:
    """The blocks of text."""
    return [block.text for block in result.content if isinstance(block, TextContent)]


def images(result: CallToolResult) -> list[ImageContent]:
    """The pictures."""
    return [block for block in result.content if isinstance(block, ImageContent)]


@contextlib.asynccontextmanager
async def over_stdio(root: Path, *options: str) -> AsyncIterator[Agent]:
    """An agent whose program started the server."""
    command = ["-m", "wasm_kernel.apps.cli", "mcp", "--workspace-root", str(root), *options]
    async with Client(stdio_client(StdioServerParameters(command=sys.executable, args=command))) as client:
        yield Agent(client)
