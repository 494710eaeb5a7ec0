"""Lists and calls the tools of an MCP server with the official Python client."""

import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main(command, *args):
    env = {"CRABMEM_TEST_MAIN": "1"}
    async with stdio_client(StdioServerParameters(command=command, args=list(args), env=env)) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = await session.list_tools()
            print(" ".join(sorted(tool.name for tool in tools.tools)))
            for name, arguments in [
                ("remember", {"name": "deploy", "content": "build, tag, push"}),
                ("recall", {"query": "push"}),
                ("get_memory", {"name": "deploy"}),
                ("list_memories", {}),
                ("memory_history", {"name": "deploy"}),
                ("session_search", {"query": "port"}),
                ("forget", {"name": "deploy"}),
                ("forget", {"name": "deploy"}),
            ]:
                answer = await session.call_tool(name, arguments)
                print(name + ":", answer.content[0].text.splitlines()[0])


asyncio.run(main(*sys.argv[1:]))
