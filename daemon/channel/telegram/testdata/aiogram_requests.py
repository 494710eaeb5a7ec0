"""Reads requests to the Bot API, one JSON object in a line, with the method classes of aiogram."""
import json
import sys

from aiogram import methods

classes = {getattr(methods, name).__api_method__: getattr(methods, name) for name in methods.__all__ if name != "TelegramMethod" and name != "Request" and name != "Response"}
counts, refused = {}, 0
for line in open(sys.argv[1]):
    request = json.loads(line)
    name, params = request["method"], {}
    method = classes[name]
    request["params"].pop("_empty", None)  # gotgbot adds it to a form without parameters
    for key, text in request["params"].items():
        if key not in method.model_fields:
            refused += 1
            print(f"{name} has no parameter {key}", file=sys.stderr)
            continue
        # Forms have texts. An object, a list, and true are JSON, but not in the text of a message.
        is_json = key != "text" and (text[:1] in ("[", "{") or text in ("true", "false"))
        params[key] = json.loads(text) if is_json else text
    try:
        method.model_validate(params)
    except ValueError as error:
        refused += 1
        print(f"{name} {params}: {error}", file=sys.stderr)
    counts[name] = counts.get(name, 0) + 1
print(f"{sum(counts.values())} requests, {refused} refused: {counts}")
sys.exit(refused > 0 or len(counts) < 5)
