"""Compares the text that Telethon reads in HTML with the text that people must see. Each line of
the file is {"html", "text"}."""
import json
import sys

from telethon.extensions import html

count = wrong = 0
for line in open(sys.argv[1]):
    part = json.loads(line)
    count += 1
    text, _ = html.parse(part["html"])
    if text.strip() != part["text"].strip():
        wrong += 1
        print(f"{part['html']!r}: {text!r}, want {part['text']!r}", file=sys.stderr)
print(f"{count} parts, {wrong} wrong")
sys.exit(wrong > 0 or count < 1000)
