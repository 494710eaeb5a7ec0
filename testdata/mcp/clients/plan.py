"""Prints the calls that each client makes, and what it must receive, as JSON.

A step names a tool and its arguments. error: the result is an error. has: a part of the
text. value: members of the structured result. A step with read reads a resource."""

import json
from urllib.parse import quote

steps = []


def call(tool, args, has="", error=False, **value):
    steps.append({"tool": tool, "args": args, "has": has, "error": error, "value": value})


names = ["deploy", "Deploy steps", "größe", "日本語", "a/b", "100%", "x?y=z&w", "emoji 🦀", "it's", '"quoted"', "tab\tname", "e\u0301", "UPPER", "no.md",
         "name with a rather long text that clients show in full", "[list]", "{object}", "null", "true", "42"]
for name in names:
    text = f"# {name}\n\nfirst line of {name}\n- item <b>&amp;</b>\n\ttab, \\ backslash, and \u2028 separator"
    label = ""
    call("remember", {"name": name, "content": text}, "remembered the new note", name=name, created=True)
    call("get_memory", {"name": name}, "first line of", name=name, content=text)
    call("append", {"name": name, "text": "last line"}, "changed the note", name=name, created=False)
    call("edit", {"name": name, "old_text": "first line", "new_text": "second line"}, "changed the note", name=name)
    call("edit", {"name": name, "old_text": "first line", "new_text": "x"}, "does not occur", error=True)
    after = text.replace("first line", "second line") + "\nlast line"
    call("get_memory", {"name": name, "max_bytes": 100_000_000}, "max_bytes 100000000 was read as 262144", content=after)
    steps.append({"read": "crabmem://note/" + quote(name, safe="-._~"), "text": after})
    call("recall", {"query": "second line", "limit": "50", "budget_tokens": 50000}, "matches" if name != names[0] else "1 of 1 match")
    call("forget", {"name": name}, "restore", forgot=name)
    call("get_memory", {"name": name}, "no entry", error=True)
    call("restore", {"name": name}, "restored the note", name=name)
    call("get_memory", {"name": name, "offset": None, "max_bytes": ""}, "second line", content=after)
    call("memory_history", {"name": name, "limit": 0}, "versions", total=5)
    call("restore", {"name": name}, "exists", error=True)
call("list_memories", {"limit": 200}, f"{len(names)} of {len(names)} entries", total=len(names))
call("list_memories", {"limit": 3, "kind": "NOTE"}, f"3 of {len(names)} entries")
call("list_memories", {"limit": 1000, "kind": "", "cursor": None}, "limit 1000 was read as 200, the maximum", argument_notes=["limit 1000 was read as 200, the maximum"])
call("list_memories", {"cursor": "x"}, "cursor", error=True)
for i, (args, has) in enumerate([
    ({"aliases": ["a1", "a2"]}, ""), ({"aliases": '["b1","b2"]'}, ""), ({"aliases": []}, ""), ({"aliases": ""}, ""), ({"aliases": None}, ""), ({"aliases": [""]}, ""),
    ({"tags": '["x"]', "type": "fact"}, ""), ({"importance": "0.5"}, ""), ({"importance": None, "expires": "", "if_version": 0}, ""), ({"related": '["deploy"]', "supersedes": []}, ""),
    ({"labels": ["x"]}, 'ignored unknown arguments: "labels"'),
]):
    call("remember", {"name": f"form {i}", "content": "text"} | args, has or "remembered the new note", name=f"form {i}")
call("remember", {"name": 2026, "content": 42}, "remembered", name="2026")
call("get_memory", {"name": "2026"}, "42", content="42")
for args, has in [
    ({"limit": 0}, "match"), ({"limit": ""}, "match"), ({"limit": "3"}, "match"), ({"limit": 3.0}, "match"), ({"limit": 500}, "limit 500 was read as 50"), ({"kind": "Note"}, "match"),
    ({"kind": ""}, "match"), ({"tags": "[]"}, "match"), ({"tags": ["x"], "type": "fact"}, "match"), ({"bodies": "true"}, "match"), ({"bodies": "FALSE"}, "match"),
    ({"after": "", "before": "", "type": "", "tags": ""}, "match"), ({"max_results": 3}, 'ignored unknown arguments: "max_results"'), ({"budget_tokens": {}}, "match"),
]:
    call("recall", {"query": "text"} | args, has)
for tool, args, has in [
    ("recall", {}, "query is missing"), ("recall", {"query": ["x"]}, "query must be text, and is a list"), ("recall", {"query": "x", "limit": -1}, "limit must be at least 1"),
    ("recall", {"query": "x", "kind": "topic"}, "kind must be note or archive"), ("recall", {"query": "x", "bodies": "yes"}, "bodies must be true or false"),
    ("recall", {"query": "x", "tags": "pottery"}, 'send a list, such as ["pottery"]'), ("remember", {"name": "x"}, "content is missing"), ("remember", {"name": "", "content": "x"}, "name is empty"),
    ("remember", {"name": "x", "content": " "}, "is empty"), ("append", {"name": "deploy", "text": ""}, "text is empty"), ("append", {"name": "gone", "text": "x"}, "no entry"),
    ("edit", {"name": "deploy", "old_text": "line", "new_text": "x"}, "occurs 2 times"), ("restore", {"name": "gone"}, "no removed note"), ("restore", {"name": "deploy", "change": 10**9}, "no version"),
    ("forget", {"name": "gone"}, "no entry"), ("get_memory", {"name": "gone"}, "no entry"),
]:
    call(tool, args, has, error=True)
call("session_search", {"query": "x"}, "0 of 0 matches", total=0)
for name in names:
    call("forget", {"name": name}, "forgot", forgot=name)
print(json.dumps({"tools": sorted(["append", "edit", "forget", "get_memory", "list_memories", "memory_history", "recall", "remember", "restore", "session_search"]), "steps": steps}))
