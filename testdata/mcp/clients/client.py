"""Makes the calls of plan.py with a Python client, and prints the number of checks.

Usage: client.py CLIENT PLAN stdio PROGRAM ARGUMENT...
       client.py CLIENT PLAN http URL
CLIENT is sdk (the package mcp), fastmcp, or langchain. CRABMEM_TOKEN is the token."""

import asyncio
import contextlib
import json
import os
import sys

checks, faults = 0, []


def check(good, what):
    global checks
    checks += 1
    if not good:
        faults.append(what)


def texts(content):
    return "\n".join(c.text for c in content if getattr(c, "text", None) is not None)


def headers():
    token = os.environ.get("CRABMEM_TOKEN")
    return {"Authorization": "Bearer " + token} if token else {}


class SDK:
    """A session of the package mcp, of version 1 or 2."""

    @contextlib.asynccontextmanager
    async def session(self, how, target):
        from mcp import ClientSession

        if how == "stdio":
            from mcp import StdioServerParameters
            from mcp.client.stdio import stdio_client

            streams = stdio_client(StdioServerParameters(command=target[0], args=target[1:], env=dict(os.environ)))
        else:
            streams = self.http(target[0])
        async with streams as (read, write, *_):
            async with ClientSession(read, write) as self.s:
                await self.s.initialize()
                yield self

    def http(self, url):
        from mcp.client import streamable_http

        try:
            from mcp.shared._httpx_utils import create_mcp_http_client
        except ImportError:
            return streamable_http.streamablehttp_client(url, headers=headers())
        if hasattr(streamable_http, "streamable_http_client"):
            return streamable_http.streamable_http_client(url, http_client=create_mcp_http_client(headers=headers()))
        return streamable_http.streamablehttp_client(url, headers=headers())

    async def tools(self):
        return [t.name for t in (await self.s.list_tools()).tools]

    async def call(self, tool, args):
        r = await self.s.call_tool(tool, args)
        error = r.is_error if hasattr(r, "is_error") else r.isError
        structure = r.structured_content if hasattr(r, "structured_content") else r.structuredContent
        return error, texts(r.content), structure

    async def read(self, uri):
        try:
            r = await self.s.read_resource(uri)
        except Exception:  # version 1 of the package wants a URL object
            from pydantic import AnyUrl

            r = await self.s.read_resource(AnyUrl(uri))
        return texts(r.contents)


class FastMCP:
    @contextlib.asynccontextmanager
    async def session(self, how, target):
        from fastmcp import Client
        from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

        if how == "stdio":
            transport = StdioTransport(command=target[0], args=target[1:], env=dict(os.environ))
        else:
            transport = StreamableHttpTransport(target[0], headers=headers())
        async with Client(transport) as self.c:
            yield self

    async def tools(self):
        return [t.name for t in await self.c.list_tools()]

    async def call(self, tool, args):
        r = await self.c.call_tool(tool, args, raise_on_error=False)
        return r.is_error, texts(r.content), r.structured_content

    async def read(self, uri):
        return texts(await self.c.read_resource(uri))


class LangChain:
    @contextlib.asynccontextmanager
    async def session(self, how, target):
        from langchain_mcp_adapters.client import MultiServerMCPClient
        from langchain_mcp_adapters.resources import load_mcp_resources
        from langchain_mcp_adapters.tools import load_mcp_tools

        if how == "stdio":
            server = {"transport": "stdio", "command": target[0], "args": target[1:], "env": dict(os.environ)}
        else:
            server = {"transport": "streamable_http", "url": target[0], "headers": headers()}
        async with MultiServerMCPClient({"crabmem": server}).session("crabmem") as s:
            self.load, self.s = load_mcp_resources, s
            self.by_name = {t.name: t for t in await load_mcp_tools(s)}
            yield self

    async def tools(self):
        return list(self.by_name)

    async def call(self, tool, args):
        from langchain_core.tools import ToolException

        try:
            m = await self.by_name[tool].ainvoke({"type": "tool_call", "id": "1", "name": tool, "args": args})
        except ToolException as e:
            return True, str(e), None
        content = m.content if isinstance(m.content, str) else "\n".join(c["text"] for c in m.content)
        return m.status == "error", content, (m.artifact or {}).get("structured_content")

    async def read(self, uri):
        return "\n".join(b.as_string() for b in await self.load(self.s, uris=[uri]))


async def main(client, plan, how, *target):
    with open(plan) as f:
        plan = json.load(f)
    async with {"sdk": SDK, "fastmcp": FastMCP, "langchain": LangChain}[client]().session(how, list(target)) as c:
        tools = sorted(await c.tools())
        check(set(plan["tools"]) <= set(tools), f"tools {tools}")
        for step in plan["steps"]:
            if "read" in step:
                text = await c.read(step["read"])
                check(text == step["text"], f"{step['read']}: {text!r}")
                continue
            error, text, structure = await c.call(step["tool"], step["args"])
            what = f"{step['tool']} {step['args']}: {error}, {text!r}, {structure}"
            check(bool(error) == step["error"] and step["has"] in text, what)
            if not step["error"]:
                check(structure is not None and all(structure.get(k) == v for k, v in step["value"].items()), what)
    print(f"{checks} checks, {len(faults)} faults")
    for f in faults[:10]:
        print(f[:500])
    sys.exit(bool(faults))


asyncio.run(main(*sys.argv[1:]))
