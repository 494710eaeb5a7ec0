"""Connects a chat platform to crabmem. The platform here is a pipe: a line of standard input
is {"id", "conversation", "text"}, and a line of standard output is {"conversation", "text"}."""
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

URL = os.environ.get("CRABMEM_GATEWAY", "http://127.0.0.1:3000") + "/webhook/"
KEY = os.environ["CRABMEM_KEY"]
SEEN = sys.argv[1]  # file: the seq of the last delivered text of each conversation


def call(method, path, body=None, once=None):
    """Repeats a request until the gateway answers. once makes repeated messages one."""
    headers = {"Authorization": "Bearer " + KEY, "Content-Type": "application/json"}
    if once:
        headers["Idempotency-Key"] = once
    data = None if body is None else json.dumps(body).encode()
    wait = 1
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(URL + path, data, headers, method=method), timeout=90) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 429:
                raise SystemExit(error.read().decode())
        except OSError:
            pass  # the gateway is stopped
        time.sleep(wait)
        wait = min(2 * wait, 60)


def deliver(conversation):
    """Delivers the texts of a conversation, and stores each before it confirms it."""
    path = "poll/" + urllib.parse.quote(conversation, safe="")
    while True:
        for m in call("GET", f"{path}?wait=30&after={seen.get(conversation, 0)}")["messages"]:
            print(json.dumps({"conversation": conversation, "text": m["content"]}), flush=True)
            with lock:
                seen[conversation] = m["seq"]
                with open(SEEN + ".new", "w") as f:
                    json.dump(seen, f)
                    f.flush()
                    os.fsync(f.fileno())
                os.replace(SEEN + ".new", SEEN)


def follow(conversation):
    if conversation not in known:
        known.add(conversation)
        threading.Thread(target=deliver, args=[conversation], daemon=True).start()


lock, known = threading.Lock(), set()
seen = json.load(open(SEEN)) if os.path.exists(SEEN) else {}
for conversation in list(seen):
    follow(conversation)
for line in sys.stdin:
    m = json.loads(line)
    call("POST", "send", {"conversation_id": m["conversation"], "content": m["text"]}, once=m["id"])
    follow(m["conversation"])
