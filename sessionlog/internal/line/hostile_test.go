package line

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"crabmem/sessionlog/record"
)

// The frame around a hostile line, which is at line 3, offset 80.
const (
	frameMeta   = `{"agent":"a","created_by":"b","created_at":"c2"}` + "\n\n"
	frameBefore = `{"role":"user","content":"1"}` + "\n"
	frameAfter  = `{"role":"user","content":"2"}` + "\n"
)

// hostile is a file, or one line in the frame, and the expected result.
type hostile struct {
	name string
	line string // in the frame
	file string // instead of line
	// kinds are the kinds of all lines, or of the one in the frame; a bad
	// line's is bad>kind when it ends in a record.
	kinds string
	// damage lists the expected errors; for a line in the frame without the
	// position.
	damage  []string
	says    string // the lenient context
	resumes bool   // in spite of the damage
	strict  string // the error of a strict reader, when it is not the last damage
	torn    int64
	check   func(*Context) bool
	limit   int64
}

const minHostile = 195

func hostiles() []hostile {
	deep := func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }
	return []hostile{
		// Invalid JSON.
		{name: "word", line: `hello`, kinds: "bad", damage: []string{`not JSON at byte 1: unexpected 'h'`}},
		{name: "array", line: `[{"role":"user"}]`, kinds: "bad", damage: []string{`not a JSON object`}},
		{name: "string", line: `"role"`, kinds: "bad", damage: []string{`not a JSON object`}},
		{name: "number", line: `12`, kinds: "bad", damage: []string{`not a JSON object`}},
		{name: "null", line: `null`, kinds: "bad", damage: []string{`not a JSON object`}},
		{name: "NaN", line: `{"role":"user","x":NaN}`, kinds: "bad", damage: []string{`not JSON at byte 20: unexpected 'N'`}},
		{name: "infinity", line: `{"role":"user","x":-Infinity}`, kinds: "bad", damage: []string{`not JSON at byte 21: unexpected 'I'`}},
		{name: "comment", line: `{"role":"user"/**/}`, kinds: "bad", damage: []string{`not JSON at byte 15: unexpected '/'`}},
		{name: "trailing comma", line: `{"role":"user",}`, kinds: "bad", damage: []string{`not JSON at byte 16: unexpected '}'`}},
		{name: "trailing comma in array", line: `{"x":[1,]}`, kinds: "bad", damage: []string{`not JSON at byte 9: unexpected ']'`}},
		{name: "leading comma", line: `{,"role":"user"}`, kinds: "bad", damage: []string{`not JSON at byte 2: unexpected ','`}},
		{name: "single quotes", line: `{'role':'user'}`, kinds: "bad", damage: []string{`not JSON at byte 2: unexpected '\''`}},
		{name: "bare key", line: `{role:"user"}`, kinds: "bad", damage: []string{`not JSON at byte 2: unexpected 'r'`}},
		{name: "no colon", line: `{"role" "user"}`, kinds: "bad", damage: []string{`not JSON at byte 9: unexpected '"'`}},
		{name: "second value", line: `{"role":"user"} {}`, kinds: "bad>message>unknown", says: "user ", damage: []string{`data after the object at byte 17`}},
		{name: "closed twice", line: `{"role":"user"}}`, kinds: "bad", damage: []string{`data after the object at byte 16`}},
		{name: "cut word", line: `{"x":tru}`, kinds: "bad", damage: []string{`not JSON at byte 9: unexpected '}'`}},
		{name: "cut line", line: `{"role":"user","content":"hal`, kinds: "bad", damage: []string{`record is cut after 29 bytes`}},
		{name: "cut line and a blank one", line: `{"role":"user","content":"hal` + "\n", kinds: "bad blank", damage: []string{`record is cut after 29 bytes`}},
		{name: "cut in a pair of surrogates", line: `{"role":"user","content":"\ud83d\ude`, kinds: "bad", damage: []string{`record is cut after 36 bytes`}},
		{name: "tab in a string", line: "{\"role\":\"user\",\"content\":\"a\tb\"}", kinds: "bad", damage: []string{`control character U+0009 in a string at byte 28`}},
		{name: "escape in a string", line: "{\"role\":\"user\",\"content\":\"a\x1bb\"}", kinds: "bad", damage: []string{`control character U+001B in a string at byte 28`}},
		{name: "delete is no control character", line: "{\"role\":\"user\",\"content\":\"a\x7fb\"}", kinds: "message", says: "user a\x7fb"},
		{name: "unknown escape", line: `{"role":"user","content":"\x41"}`, kinds: "bad", damage: []string{`invalid JSON escape at byte 27: "\\x41\"}"`}},
		{name: "short escape", line: `{"role":"user","content":"\u12"}`, kinds: "bad", damage: []string{`invalid JSON escape at byte 27: "\\u12\"}"`}},
		{name: "escaped quote ends nothing", line: `{"role":"user","content":"\"}`, kinds: "bad", damage: []string{`record is cut after 29 bytes`}},
		{name: "all escapes", line: `{"role":"user","content":"\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\ude00\u0000"}`, kinds: "message", says: "user \"\\/\b\f\n\r\tA\u00e9\U0001f600\x00"},

		// Numbers.
		{name: "huge number", line: `{"role":"user","x":` + strings.Repeat("9", 100_000) + `e999999999}`, kinds: "message", says: "user "},
		{name: "leading zero", line: `{"x":01}`, kinds: "bad", damage: []string{`not JSON at byte 7: unexpected '1'`}},
		{name: "leading plus", line: `{"x":+1}`, kinds: "bad", damage: []string{`not JSON at byte 6: unexpected '+'`}},
		{name: "bare fraction", line: `{"x":.5}`, kinds: "bad", damage: []string{`not JSON at byte 6: unexpected '.'`}},
		{name: "empty fraction", line: `{"x":1.}`, kinds: "bad", damage: []string{`not JSON at byte 8: unexpected '}'`}},
		{name: "empty exponent", line: `{"x":1e}`, kinds: "bad", damage: []string{`not JSON at byte 8: unexpected '}'`}},
		{name: "minus alone", line: `{"x":-}`, kinds: "bad", damage: []string{`not JSON at byte 7: unexpected '}'`}},
		{name: "hex number", line: `{"x":0x10}`, kinds: "bad", damage: []string{`not JSON at byte 7: unexpected 'x'`}},
		{name: "numbers of every form", line: `{"x":[0,-0,1.50,-12e+3,0.1E-2]}`, kinds: "unknown"},

		// Depth.
		{name: "depth 128", line: `{"x":` + deep(127) + `}`, kinds: "unknown"},
		{name: "depth 129", line: `{"x":` + deep(128) + `}`, kinds: "bad", damage: []string{`nested deeper than 128 at byte 133`}},
		{name: "depth 100,000", line: `{"x":` + deep(100_000) + `}`, kinds: "bad", damage: []string{`nested deeper than 128 at byte 133`}},
		{name: "depth 100,000 of objects", line: strings.Repeat(`{"role":`, 100_000), kinds: "bad", damage: []string{`nested deeper than 128 at byte 1025`}},
		{name: "depth 129 in tool calls", line: `{"role":"a","tool_calls":[{"function":{"x":` + deep(125) + `}}]}`, kinds: "bad", damage: []string{`nested deeper than 128 at byte 168`}},
		{name: "depth 128 in tool calls", line: `{"role":"a","tool_calls":[{"function":{"x":` + deep(124) + `}}]}`, kinds: "message", says: "a +call :|tool " + missingResult},

		// Characters.
		{name: "byte order mark at the start", file: "\ufeff" + frameMeta + frameBefore, kinds: "meta blank message", says: "user 1"},
		{name: "byte order mark and nothing", file: "\ufeff\n" + frameBefore, kinds: "blank message", damage: []string{`line 1 (offset 0): no meta line: line 1 is empty`}, says: "user 1"},
		{name: "two byte order marks", file: "\ufeff\ufeff" + frameMeta, kinds: "bad blank", damage: []string{`line 1 (offset 0): byte order mark at byte 4`}},
		{name: "byte order mark elsewhere", line: "\ufeff" + `{"role":"user"}`, kinds: "bad>message", damage: []string{`byte order mark at byte 1`}, says: "user "},
		{name: "byte order mark in a string", line: `{"role":"user","content":"` + "\ufeff" + `"}`, kinds: "message", says: "user \ufeff"},
		{name: "UTF-16", line: "{\x00\"\x00r\x00o\x00l\x00e\x00\"\x00", kinds: "bad", damage: []string{`1 NUL bytes at byte 2`}},
		{name: "CRLF", line: `{"role":"user","content":"x"}` + "\r", kinds: "message", says: "user x"},
		{name: "CRLF throughout", file: strings.ReplaceAll(frameMeta+frameBefore+"\n", "\n", "\r\n"), kinds: "meta blank message blank", says: "user 1"},
		{name: "CR between tokens", line: "{\"role\":\r\"user\"\r}", kinds: "message", says: "user "},
		{name: "CR in a string", line: "{\"role\":\"us\rer\"}", kinds: "bad", damage: []string{`control character U+000D in a string at byte 12`}},
		{name: "CR ends no line", line: `{"role":"user"}` + "\r" + `{"role":"user"}`, kinds: "bad>message>message", damage: []string{`data after the object at byte 17`}, says: "user |user "},
		{name: "U+2028 and U+2029", line: `{"role":"user","content":"` + "a\u2028b\u2029c\u0085d" + `"}`, kinds: "message", says: "user a\u2028b\u2029c\u0085d"},
		{name: "U+2028 is no white space", line: "\u2028" + `{"role":"user"}`, kinds: "bad>message", damage: []string{`not JSON at byte 1: unexpected '\u2028'`}, says: "user "},
		{name: "NUL run", line: strings.Repeat("\x00", 4096), kinds: "bad", damage: []string{`only 4096 NUL bytes`}},
		{name: "NUL run before a record", line: strings.Repeat("\x00", 64) + `{"role":"user","content":"x"}`, kinds: "bad>message", damage: []string{`64 NUL bytes at byte 1`}, says: "user x"},
		{name: "NUL run behind a record", line: `{"role":"user","content":"x"}` + "\x00\x00", kinds: "bad", damage: []string{`2 NUL bytes at byte 30`}},
		{name: "NUL in a string", line: "{\"role\":\"user\",\"content\":\"a\x00b\"}", kinds: "bad", damage: []string{`1 NUL bytes at byte 28`}},
		{name: "NUL run over lines", file: frameMeta + frameBefore + strings.Repeat("\x00", 100) + "\n" + strings.Repeat("\x00", 100) + "\n" + frameAfter, kinds: "meta blank message bad bad message", damage: []string{`line 4 (offset 80): only 100 NUL bytes`, `line 5 (offset 181): only 100 NUL bytes`}, says: "user 1|user 2"},
		{name: "invalid UTF-8 in a string", line: "{\"role\":\"user\",\"content\":\"a\xffb\"}", kinds: "bad", damage: []string{`not UTF-8 at byte 28: 0xff`}},
		{name: "invalid UTF-8 in an unknown key", line: "{\"role\":\"user\",\"a\x80\":1}", kinds: "bad", damage: []string{`not UTF-8 at byte 18: 0x80`}},
		{name: "invalid UTF-8 outside", line: "\xc3{\"role\":\"user\"}", kinds: "bad>message", damage: []string{`not UTF-8 at byte 1: 0xc3`}, says: "user "},
		{name: "overlong UTF-8", line: "{\"role\":\"user\",\"content\":\"\xc0\xaf\"}", kinds: "bad", damage: []string{`not UTF-8 at byte 27: 0xc0`}},
		{name: "overlong NUL", line: "{\"role\":\"user\",\"content\":\"\xc0\x80\"}", kinds: "bad", damage: []string{`not UTF-8 at byte 27: 0xc0`}},
		{name: "surrogates in UTF-8", line: "{\"role\":\"user\",\"content\":\"\xed\xa0\xbd\xed\xb8\x80\"}", kinds: "bad", damage: []string{`not UTF-8 at byte 27: 0xed`}},
		{name: "beyond Unicode", line: "{\"role\":\"user\",\"content\":\"\xf4\x90\x80\x80\"}", kinds: "bad", damage: []string{`not UTF-8 at byte 27: 0xf4`}},
		{name: "Latin-1", line: "{\"role\":\"user\",\"content\":\"caf\xe9 au lait\"}", kinds: "bad", damage: []string{`not UTF-8 at byte 30: 0xe9`}},
		{name: "high surrogate alone", line: `{"role":"user","content":"\ud83d!"}`, kinds: "bad", damage: []string{`lone surrogate at byte 27: \ud83d`}},
		{name: "low surrogate alone", line: `{"role":"user","content":"\ude00"}`, kinds: "bad", damage: []string{`lone surrogate at byte 27: \ude00`}},
		{name: "high surrogate twice", line: `{"role":"user","content":"\ud83d\ud83d"}`, kinds: "bad", damage: []string{`lone surrogate at byte 27: \ud83d`}},
		{name: "high surrogate and a letter", line: `{"role":"user","content":"\ud83d\u0041"}`, kinds: "bad", damage: []string{`lone surrogate at byte 27: \ud83d`}},
		{name: "lone surrogate in an unknown key", line: `{"role":"user","\ud800":1}`, kinds: "bad", damage: []string{`lone surrogate at byte 17: \ud800`}},

		// Keys.
		{name: "known key twice", line: `{"role":"user","content":"x","content":"x"}`, kinds: "bad", damage: []string{`duplicate key "content" at byte 30`}},
		{name: "role twice", line: `{"role":"user","role":"user"}`, kinds: "bad", damage: []string{`duplicate key "role" at byte 16`}},
		{name: "known key twice, once escaped", line: `{"role":"user","content":"x","\u0063ontent":"y"}`, kinds: "bad", damage: []string{`duplicate key "content" at byte 30`}},
		{name: "unknown key twice", line: `{"role":"user","x":1,"x":2,"content":"y"}`, kinds: "message", says: "user y"},
		{name: "known key of another object twice", line: `{"role":"user","id":1,"id":2,"title":"a","title":"b"}`, kinds: "message", says: "user "},
		{name: "message's key twice in an unknown record", line: `{"content":1,"content":2}`, kinds: "unknown"},
		{name: "compact twice", line: `{"compact":"a","compact":"b"}`, kinds: "bad", damage: []string{`duplicate key "compact" at byte 16`}},
		{name: "compact and no string", line: `{"compact":"a","compact":null}`, kinds: "bad", damage: []string{`duplicate key "compact" at byte 16`}},
		{name: "meta twice", line: `{"meta":{},"meta":{}}`, kinds: "bad", damage: []string{`duplicate key "meta" at byte 12`}},
		{name: "title twice in meta", line: `{"meta":{"title":"a","title":"b"}}`, kinds: "bad", damage: []string{`duplicate key "title" at byte 22`}},
		{name: "id twice in a call", line: `{"role":"a","tool_calls":[{"id":"1","id":"2"}]}`, kinds: "bad", damage: []string{`duplicate key "id" at byte 37`}},
		{name: "arguments twice", line: `{"role":"a","tool_calls":[{"function":{"arguments":"","arguments":""}}]}`, kinds: "bad", damage: []string{`duplicate key "arguments" at byte 55`}},
		{name: "function twice", line: `{"role":"a","tool_calls":[{"function":{},"function":{}}]}`, kinds: "bad", damage: []string{`duplicate key "function" at byte 42`}},
		{name: "case counts", line: `{"Role":"user","COMPACT":"x"}`, kinds: "unknown"},
		{name: "escaped key", line: `{"\u0072ole":"user","\u0063\u006F\u006e\u0074\u0065\u006e\u0074":"x"}`, kinds: "message", says: "user x"},
		{name: "every character of a key escaped", line: `{"role":"user","\u0072\u0065\u0061\u0073\u006f\u006e\u0069\u006e\u0067\u005f\u0063\u006f\u006e\u0074\u0065\u006e\u0074":5}`, kinds: "bad", damage: []string{`reasoning_content is not a string, at byte 121`}},
		{name: "empty key", line: `{"":1,"role":"user"}`, kinds: "message", says: "user "},
		{name: "NUL in a key", line: `{"role\u0000":"x"}`, kinds: "unknown"},

		// Types.
		{name: "role no string", line: `{"role":5}`, kinds: "bad", damage: []string{`role is not a string, at byte 9`}},
		{name: "role null", line: `{"role":null}`, kinds: "bad", damage: []string{`role is not a string, at byte 9`}},
		{name: "empty role", line: `{"role":"","content":"x"}`, kinds: "message", says: " x"},
		{name: "role of another program", line: `{"role":"developer","content":"x"}`, kinds: "message", says: "developer x"},
		{name: "null content", line: `{"role":"user","content":null,"reasoning_content":null,"tool_call_id":null,"tool_calls":null}`, kinds: "message", says: "user "},
		{name: "content an array", line: `{"role":"user","content":[{"type":"text"}]}`, kinds: "bad", damage: []string{`content is not a string, at byte 26`}},
		{name: "tool_call_id a number", line: `{"role":"tool","tool_call_id":7}`, kinds: "bad", damage: []string{`tool_call_id is not a string, at byte 31`}},
		{name: "tool_calls an object", line: `{"role":"user","tool_calls":{}}`, kinds: "bad", damage: []string{`tool_calls is not an array of objects, at byte 29`}},
		{name: "tool_calls a string", line: `{"role":"user","tool_calls":"x"}`, kinds: "bad", damage: []string{`tool_calls is not an array of objects, at byte 29`}},
		{name: "call null", line: `{"role":"user","tool_calls":[null]}`, kinds: "bad", damage: []string{`tool_calls is not an array of objects, at byte 30`}},
		{name: "call of calls", line: `{"role":"user","tool_calls":[[]]}`, kinds: "bad", damage: []string{`tool_calls is not an array of objects, at byte 30`}},
		{name: "call id a number", line: `{"role":"user","tool_calls":[{"id":1}]}`, kinds: "bad", damage: []string{`id is not a string, at byte 36`}},
		{name: "function a string", line: `{"role":"user","tool_calls":[{"function":"x"}]}`, kinds: "bad", damage: []string{`function is not an object, at byte 42`}},
		{name: "arguments an object", line: `{"role":"user","tool_calls":[{"function":{"arguments":{}}}]}`, kinds: "bad", damage: []string{`arguments is not a string, at byte 55`}},
		{name: "no calls", line: `{"role":"user","content":"x","tool_calls":[]}`, kinds: "message", says: "user x"},
		{name: "missing arguments", line: `{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f"}}]}` + "\n" + `{"role":"tool","content":"x","tool_call_id":"c"}`, kinds: "message message", says: "assistant +callc f:|tool x"},
		{name: "call of nothing", line: `{"role":"assistant","tool_calls":[{}]}`, kinds: "message", says: "assistant +call :|tool " + missingResult},
		{name: "call of nulls", line: `{"role":"assistant","tool_calls":[{"id":null,"type":null,"function":null},{"function":{"name":null,"arguments":null}}]}`, kinds: "message", says: "assistant +call :+call :|tool " + missingResult + "|tool " + missingResult},
		{name: "call with unknown keys", line: `{"role":"assistant","tool_calls":[{"index":0,"index":1,"id":"c","x":[{}],"function":{"x":{},"arguments":"{}","name":"f"}}]}`, kinds: "message", says: "assistant +callc f:{}|tool " + missingResult},

		// Records.
		{name: "unknown record", line: `{"event":"x","content":[1],"uptime_secs":-1}`, kinds: "unknown"},
		{name: "empty object", line: `{}`, kinds: "unknown"},
		{name: "white space around", line: " \t{ \"role\" : \"user\" , \"content\" : \"x\" } \t\r", kinds: "message", says: "user x"},
		{name: "blank line", line: " \t\r", kinds: "blank"},
		{name: "form feed is no blank", line: "\f", kinds: "bad", damage: []string{`not JSON at byte 1: unexpected '\f'`}},
		{name: "compact no string", line: `{"compact":5}`, kinds: "unknown"},
		{name: "compact no string, with a role", line: `{"compact":{},"role":"user","content":"x"}`, kinds: "message", says: "user x"},
		{name: "compact no string, with meta", line: `{"compact":null,"meta":{}}`, kinds: "meta-record"},
		{name: "meta no object", line: `{"meta":"x"}`, kinds: "unknown"},
		{name: "meta with a role is a message", line: `{"meta":{"title":5},"role":"user","content":"x"}`, kinds: "message", says: "user x"},
		{name: "meta and its title no string", line: `{"meta":{"title":null}}`, kinds: "bad", damage: []string{`title is not a string, at byte 18`}},
		{name: "meta and an uptime below 0", line: `{"meta":{"uptime_secs":-1}}`, kinds: "bad", damage: []string{`uptime_secs is not an integer from 0 to 2^64-1, at byte 24`}},
		{name: "meta and an uptime of a string", line: `{"meta":{"uptime_secs":"1"}}`, kinds: "bad", damage: []string{`uptime_secs is not an integer from 0 to 2^64-1, at byte 24`}},
		{name: "meta and an uptime with a fraction", line: `{"meta":{"uptime_secs":1.0}}`, kinds: "bad", damage: []string{`uptime_secs is not an integer from 0 to 2^64-1, at byte 24`}},
		{name: "meta and an uptime with an exponent", line: `{"meta":{"uptime_secs":1e3}}`, kinds: "bad", damage: []string{`uptime_secs is not an integer from 0 to 2^64-1, at byte 24`}},
		{name: "meta and an uptime of 2^64", line: `{"meta":{"uptime_secs":18446744073709551616}}`, kinds: "bad", damage: []string{`uptime_secs is not an integer from 0 to 2^64-1, at byte 24`}},
		{name: "meta and an uptime of 2^64-1", line: `{"meta":{"uptime_secs":18446744073709551615,"x":1}}`, kinds: "meta-record", check: func(c *Context) bool { return c.Meta.UptimeSecs == 1<<64-1 }},
		{name: "marker", line: `{"compact":"s"}`, kinds: "marker", says: "user s|user 2", check: func(c *Context) bool { return c.Compacted && c.Start == 80 }},
		{name: "empty marker", line: `{"compact":""}`, kinds: "marker", says: "user |user 2"},
		{name: "marker with keys before", line: `{"x":{"compact":5},"role":"user","compact":"s"}`, kinds: "marker", says: "user s|user 2"},
		{name: "marker with keys behind", line: `{"compact":"s","role":7,"content":[],"tool_calls":[1],"meta":5}`, kinds: "marker", says: "user s|user 2"},
		{name: "marker with an escaped key", line: `{"\u0063ompact":"s"}`, kinds: "marker", says: "user s|user 2"},
		{name: "marker with white space", line: ` { "compact" : "s" } `, kinds: "marker", says: "user s|user 2"},
		{name: "marker inside another object", line: `{"x":{"compact":"s"}}`, kinds: "unknown"},
		{name: "marker in a text", line: `{"role":"user","content":"{\"compact\":\"s\"}"}`, kinds: "message", says: `user {"compact":"s"}`},
		{name: "two markers", line: `{"compact":"s"}` + "\n" + `{"compact":"t"}`, kinds: "marker marker", says: "user t|user 2", check: func(c *Context) bool { return c.Start == 96 }},
		{name: "meta line twice", line: strings.TrimSpace(frameMeta), kinds: "unknown"},

		// Line 1.
		{name: "empty file", file: "", damage: []string{`line 1 (offset 0): no meta line: line 1 is empty`}},
		{name: "missing meta", file: frameBefore, kinds: "message", damage: []string{`line 1 (offset 0): no meta line: line 1 is of kind message`}, says: "user 1"},
		{name: "marker for a meta line", file: `{"compact":"s"}` + "\n" + frameAfter, kinds: "marker message", damage: []string{`line 1 (offset 0): no meta line: line 1 is of kind marker`}, says: "user s|user 2"},
		{name: "meta record for a meta line", file: `{"meta":{"title":"x"}}` + "\n", kinds: "meta-record", damage: []string{`line 1 (offset 0): no meta line: line 1 is of kind meta record`}, check: func(c *Context) bool { return c.Meta.Title == "x" }},
		{name: "object for a meta line", file: "{}\n" + frameAfter, kinds: "bad message", damage: []string{`line 1 (offset 0): no meta line: "agent" is missing`}, says: "user 2"},
		{name: "meta line without created_at", file: `{"agent":"a","created_by":"b"}` + "\n", kinds: "bad", damage: []string{`line 1 (offset 0): no meta line: "created_at" is missing`}},
		{name: "meta line with a null", file: `{"agent":"a","created_by":"b","created_at":null}` + "\n", kinds: "bad", damage: []string{`line 1 (offset 0): created_at is not a string, at byte 44`}},
		{name: "meta line with a null title", file: `{"agent":"a","created_by":"b","created_at":"c","title":null}` + "\n", kinds: "bad", damage: []string{`line 1 (offset 0): title is not a string, at byte 56`}},
		{name: "meta line with an agent twice", file: `{"agent":"a","agent":"a","created_by":"b","created_at":"c"}` + "\n", kinds: "bad", damage: []string{`line 1 (offset 0): duplicate key "agent" at byte 14`}},
		{name: "meta line with an uptime below 0", file: `{"agent":"a","created_by":"b","created_at":"c","uptime_secs":-0}` + "\n", kinds: "bad", damage: []string{`line 1 (offset 0): uptime_secs is not an integer from 0 to 2^64-1, at byte 62`}},
		{name: "meta line with keys of every record", file: `{"compact":"x","role":5,"meta":6,"agent":"a","created_by":"b","created_at":"c","content":1,"content":2}` + "\n", kinds: "meta", check: func(c *Context) bool { return c.Meta == Meta{Agent: "a", CreatedBy: "b", CreatedAt: "c"} }},
		{name: "meta line with a source", file: `{"agent":"a","created_by":"b","created_at":"c","source":"s","uptime_secs":9}` + "\n", kinds: "meta", check: func(c *Context) bool {
			return c.Meta == Meta{Agent: "a", CreatedBy: "b", CreatedAt: "c", Source: "s", UptimeSecs: 9}
		}},
		{name: "meta line cut and glued", file: `{"agent":"cra` + frameBefore + frameAfter, kinds: "bad>message message", damage: []string{`line 1 (offset 0): not JSON at byte 16: unexpected 'r'`}, says: "user 1|user 2"},
		{name: "blank line 1", file: "\n" + frameMeta, kinds: "blank unknown blank", damage: []string{`line 1 (offset 0): no meta line: line 1 is empty`}},

		// The end of the file.
		{name: "unterminated last line", file: frameMeta + frameBefore + `{"role":"user","content":"ha`, kinds: "meta blank message bad", says: "user 1", torn: 28},
		{name: "unterminated last line that is glued", file: frameMeta + `{"role":"us{"role":"user"}`, kinds: "meta blank bad>message", damage: []string{`line 3 (offset 50): not JSON at byte 14: unexpected 'r'`}, says: "user "},
		{name: "unterminated last line, and one before it without its end", file: frameMeta + `{"role":"user","content":"w"}{"role":"us`, kinds: "meta blank message bad", says: "user w", torn: 11},
		{name: "unterminated last line, and less than a beginning", file: frameMeta + `{"role":"user","content":"w"} {`, kinds: "meta blank message bad", says: "user w", torn: 1},
		{name: "unterminated last line of two whole records and a half", file: frameMeta + `{"role":"user","content":"w"}{"compact":"s"}{"role":"us`, kinds: "meta blank bad>message>marker bad", damage: []string{`line 3 (offset 50): data after the object at byte 30`}, says: "user s", torn: 11},
		{name: "unterminated last line between two halves", file: frameMeta + `{"role":"us{"role":"user","content":"w"}{"role":"us`, kinds: "meta blank bad>message bad", damage: []string{`line 3 (offset 50): not JSON at byte 14: unexpected 'r'`}, says: "user w", torn: 11},
		{name: "unterminated last line in a half that ends in the middle", file: frameMeta + `{"x":[{"role":"user","content":"w"}{"role":"us`, kinds: "meta blank bad>message bad", damage: []string{`line 3 (offset 50): record is cut after 35 bytes`}, says: "user w", torn: 11},
		{name: "meta line and a half without newline", file: `{"agent":"a","created_by":"b","created_at":"c"}{"role":"us`, kinds: "meta bad", torn: 11, check: func(c *Context) bool { return c.Meta.Agent == "a" && c.Start == 47 }},
		{name: "meta line and a record without newline", file: `{"agent":"a","created_by":"b","created_at":"c"}{"role":"user"}`, kinds: "bad>meta>message", damage: []string{`line 1 (offset 0): data after the object at byte 48`}, says: "user ", check: func(c *Context) bool { return c.Meta.Agent == "a" && c.Start == 47 }},
		{name: "meta line with a record glued to it", file: "\ufeff" + `{"agent":"a","created_by":"b","created_at":"c"}` + frameBefore + frameAfter, kinds: "bad>meta>message message", damage: []string{`line 1 (offset 0): data after the object at byte 51`}, says: "user 1|user 2", check: func(c *Context) bool { return c.Meta.Agent == "a" && c.Start == 50 }},
		{name: "meta line with a record glued to it, and a marker behind", file: `{"agent":"a","created_by":"b","created_at":"c"}` + frameBefore + `{"compact":"s"}` + "\n", kinds: "bad>meta>message marker", says: "user s", check: func(c *Context) bool { return c.Meta.Agent == "a" }},
		{name: "meta line with a marker glued to it", file: `{"agent":"a","created_by":"b","created_at":"c"}{"compact":"s"}` + "\n" + frameAfter, kinds: "bad>meta>marker message", damage: []string{`line 1 (offset 0): data after the object at byte 48`}, says: "user s|user 2", check: func(c *Context) bool { return c.Meta.Agent == "a" && c.Start == 47 }},
		{name: "meta line behind a record", file: `{"role":"user"}` + frameMeta, kinds: "bad>message>unknown blank", damage: []string{`line 1 (offset 0): data after the object at byte 16`}, says: "user "},
		{name: "marker and a record for a meta line", file: `{"compact":"s"}` + frameBefore, kinds: "bad>marker>message", damage: []string{`line 1 (offset 0): data after the object at byte 16`}, says: "user s|user 1"},
		{name: "broken meta line and a record", file: `{"agent":"a","role":"user"}` + frameBefore, kinds: "bad>message", damage: []string{`line 1 (offset 0): data after the object at byte 28`}, says: "user 1"},
		{name: "valid line without newline", file: frameMeta + frameBefore + `{"role":"user","content":"x"}`, kinds: "meta blank message message", says: "user 1|user x"},
		{name: "marker without newline", file: frameMeta + frameBefore + `{"compact":"x"}`, kinds: "meta blank message marker", says: "user x"},
		{name: "unknown record without newline", file: frameMeta + frameBefore + `{}`, kinds: "meta blank message unknown", says: "user 1"},
		{name: "wrong type without newline", file: frameMeta + frameBefore + `{"role":5}`, kinds: "meta blank message bad", says: "user 1", torn: 10},
		{name: "blanks without newline", file: frameMeta + frameBefore + "  ", kinds: "meta blank message blank", says: "user 1", torn: 2},
		{name: "NUL run at the end", file: frameMeta + frameBefore + strings.Repeat("\x00", 512), kinds: "meta blank message bad", says: "user 1", torn: 512},
		{name: "meta line without newline", file: `{"agent":"a","created_by":"b","created_at":"c"}`, kinds: "meta", check: func(c *Context) bool { return c.Start == 47 }},
		{name: "cut meta line", file: `{"agent":"a","created_`, kinds: "bad", damage: []string{`line 1 (offset 0): record is cut after 22 bytes`}, torn: 22},

		// Glued lines.
		{name: "glued message", line: `{"role":"user","content":"ha{"role":"user","content":"x"}`, kinds: "bad>message", damage: []string{`not JSON at byte 31: unexpected 'r'`}, says: "user x"},
		{name: "glued message behind a backslash", line: `{"role":"user","content":"ha\{"role":"user","content":"x"}`, kinds: "bad>message", damage: []string{`invalid JSON escape at byte 29: "\\{\"rol"`}, says: "user x"},
		{name: "glued message behind half a character", line: "{\"role\":\"user\",\"content\":\"\xc3" + `{"role":"user","content":"x"}`, kinds: "bad>message", damage: []string{`not UTF-8 at byte 27: 0xc3`}, says: "user x"},
		{name: "glued marker", line: `{"role":"user","content":"ha{"compact":"s"}`, kinds: "bad>marker", damage: []string{`not JSON at byte 31: unexpected 'c'`}, says: "user s|user 2", check: func(c *Context) bool { return c.Start == 108 }},
		{name: "glued meta record", line: `{"role":"user","content":"ha{"meta":{"title":"T","uptime_secs":3}}`, kinds: "bad>meta-record", damage: []string{`not JSON at byte 31: unexpected 'm'`}, check: func(c *Context) bool { return c.Meta.Title == "T" && c.Meta.UptimeSecs == 3 }},
		{name: "glued to a whole record", line: `{"role":"user","content":"w"}{"role":"user","content":"x"}`, kinds: "bad>message>message", damage: []string{`data after the object at byte 30`}, says: "user w|user x"},
		{name: "glued records of every kind", line: `{"role":"user"} {"compact":"s"}{"meta":{"title":"T"}}` + "\t" + `{"role":"user","content":"x"}{"x":1}`, kinds: "bad>message>marker>meta-record>message>unknown", damage: []string{`data after the object at byte 17`}, says: "user s|user x|user 2", check: func(c *Context) bool { return c.Start == 96 && c.Meta.Title == "T" }},
		{name: "glued to a half that was glued to a whole record", line: `{"role":"user","content":"w"}{"role":"user","co{"role":"user","content":"x"}`, kinds: "bad>message>message", damage: []string{`data after the object at byte 30`}, says: "user w|user x"},
		{name: "glued to less than a beginning", line: `{"role":"user","content":"w"}{"ro{{"role":"user","content":"x"}`, kinds: "bad>message>message", damage: []string{`data after the object at byte 30`}, says: "user w|user x"},
		{name: "whole records and half of one", line: `{"role":"user","content":"w"}{"role":"user","content":"x"}{"role":"us`, kinds: "bad>message>message", damage: []string{`data after the object at byte 30`}, says: "user w|user x"},
		{name: "whole records and nonsense between", line: `{"role":"user","content":"w"}x{"role":"user","content":"x"}`, kinds: "bad>message", damage: []string{`data after the object at byte 30`}, says: "user x"},
		{name: "an object before the beginning of another", line: `{"role":"us{"x":1}{"role":"user","content":"x"}`, kinds: "bad>message", damage: []string{`not JSON at byte 14: unexpected 'x'`}, says: "user x"},
		{name: "a record of nobody's and one", line: `{"x":1}{ "role":"user","content":"x"}{"x":2}`, kinds: "bad>unknown>message>unknown", damage: []string{`data after the object at byte 8`}, says: "user x"},
		{name: "call and result glued, and a result of no call", line: `{"role":"assistant","tool_calls":[{"id":"c"}]}{"role":"tool","content":"C","tool_call_id":"c"}{"role":"tool","tool_call_id":"d"}`, kinds: "bad>message>message>message", damage: []string{`data after the object at byte 47`, `line 4 (offset 174): result without an open call: tool_call_id "d"`}, says: "assistant +callc :|tool C", strict: `line 4 (offset 80): data after the object at byte 47`},
		{name: "glued twice", line: `{"role":"us{"role":"user","con{"role":"user","content":"x"}`, kinds: "bad>message", damage: []string{`not JSON at byte 14: unexpected 'r'`}, says: "user x"},
		{name: "glued with objects of its kind", line: `{"role":"us{"role":"user","content":"x","a":[{"role":1},{"compact":2},{"meta":3}]}`, kinds: "bad>message", damage: []string{`not JSON at byte 14: unexpected 'r'`}, says: "user x"},
		{name: "glued with many objects of its kind", line: `{"role":"us{"role":"user","content":"x","a":[` + strings.Repeat(`{"role":1},`, 1000) + `{"role":"user"}]}`, kinds: "bad>message", damage: []string{`not JSON at byte 14: unexpected 'r'`}, says: "user x"},
		{name: "glued to half of a record with many objects of its kind", line: `{"role":"user","a":[` + strings.Repeat(`{"role":"user"},`, 1000) + `{"ro{"role":"user","content":"x"}`, kinds: "bad>message", damage: []string{`not JSON at byte 16027: unexpected 'r'`}, says: "user x"},
		{name: "glued and bad itself", line: `{"role":"us{"role":"user","content":5}`, kinds: "bad", damage: []string{`not JSON at byte 14: unexpected 'r'`}},
		{name: "glued and cut", line: `{"role":"us{"role":"user","content":"x"`, kinds: "bad", damage: []string{`not JSON at byte 14: unexpected 'r'`}},
		{name: "glued behind white space is not looked for", line: `{"role":"us{ "role":"user"}`, kinds: "bad", damage: []string{`not JSON at byte 15: unexpected 'r'`}},
		{name: "glued with CRLF", line: `{"role":"us{"role":"user","content":"x"}` + "\r", kinds: "bad>message", damage: []string{`not JSON at byte 14: unexpected 'r'`}, says: "user x"},
		{name: "a good object is not looked into", line: `{"x":{"role":"user"}}`, kinds: "unknown"},
		{name: "a bad object whose inside is good", line: `{"role":5,"x":{"role":"user"}}`, kinds: "bad", damage: []string{`role is not a string, at byte 9`}},

		{name: "one tool call more", line: `{"role":"assistant","tool_calls":[` + strings.Repeat("{},", 10_000) + `{}]}`, kinds: "bad", damage: []string{`more than 10000 tool calls, at byte 30035`}},

		// Over the limit.
		{name: "line at the limit", limit: 100, line: `{"role":"user","content":"` + strings.Repeat("x", 72) + `"}`, kinds: "message", says: "user " + strings.Repeat("x", 72)},
		{name: "line over the limit", limit: 100, line: `{"role":"user","content":"` + strings.Repeat("x", 73) + `"}`, kinds: "bad", damage: []string{`longer than the limit of 100 bytes`}},
		{name: "glued line over the limit", limit: 100, line: strings.Repeat("x", 1000) + `{"role":"user"}`, kinds: "bad", damage: []string{`longer than the limit of 100 bytes`}},
		{name: "last line over the limit", limit: 100, file: frameMeta + frameBefore + `{"role":"` + strings.Repeat("x", 500), kinds: "meta blank message bad", says: "user 1", torn: 509},
		{name: "meta line over the limit", limit: 100, file: `{"agent":"` + strings.Repeat("x", 500) + "\"}\n" + frameBefore, kinds: "bad message", damage: []string{`line 1 (offset 0): longer than the limit of 100 bytes`}, says: "user 1"},

		// Calls and results (S11).
		{name: "result of no call", line: `{"role":"tool","content":"x","tool_call_id":"c"}`, kinds: "message", damage: []string{`result without an open call: tool_call_id "c"`}, resumes: true},
		{name: "result of a call before the marker", file: frameMeta + `{"role":"assistant","tool_calls":[{"id":"c"}]}` + "\n" + `{"compact":"s"}` + "\n" + `{"role":"tool","tool_call_id":"c"}` + "\n", kinds: "meta blank message marker message", damage: []string{`line 5 (offset 113): result without an open call: tool_call_id "c"`}, says: "user s", resumes: true},
		{name: "results out of order", line: `{"role":"assistant","tool_calls":[{"id":"c"},{"id":"d"}]}` + "\n" + `{"role":"tool","content":"D","tool_call_id":"d"}` + "\n" + `{"role":"tool","content":"C","tool_call_id":"c"}`, kinds: "message message message", says: "assistant +callc :+calld :|tool D|tool C"},
		{name: "one of two results", line: `{"role":"assistant","tool_calls":[{"id":"c"},{"id":"d"}]}` + "\n" + `{"role":"tool","content":"D","tool_call_id":"d"}`, kinds: "message message", says: "assistant +callc :+calld :|tool D|tool " + missingResult},
		{name: "result twice", line: `{"role":"assistant","tool_calls":[{"id":"c"}]}` + "\n" + `{"role":"tool","content":"C","tool_call_id":"c"}` + "\n" + `{"role":"tool","content":"E","tool_call_id":"c"}`, kinds: "message message message", damage: []string{`line 6 (offset 176): result without an open call: tool_call_id "c"`}, says: "assistant +callc :|tool C", resumes: true},
		{name: "call id twice", line: `{"role":"assistant","tool_calls":[{"id":"c"},{"id":"c"}]}` + "\n" + `{"role":"tool","content":"C","tool_call_id":"c"}` + "\n" + `{"role":"tool","content":"E","tool_call_id":"c"}`, kinds: "message message message", says: "assistant +callc :+callc :|tool C|tool E"},
		{name: "result too late", line: `{"role":"assistant","tool_calls":[{"id":"c"}]}` + "\n" + `{"role":"user","content":"u"}` + "\n" + `{"role":"tool","content":"C","tool_call_id":"c"}`, kinds: "message message message", damage: []string{`line 6 (offset 157): result without an open call: tool_call_id "c"`}, says: "assistant +callc :|tool " + missingResult + "|user u", resumes: true},
		{name: "records between call and result", line: `{"role":"assistant","tool_calls":[{"id":"c"}]}` + "\n{}\n" + `{"meta":{}}` + "\n" + `{"role":"tool","content":"C","tool_call_id":"c"}`, kinds: "message unknown meta-record message", says: "assistant +callc :|tool C"},

		{name: "marker glued in line 2", file: "\n" + `x{"compact":"s"}` + "\n", kinds: "blank bad>marker", damage: []string{"line 1 (offset 0): no meta line: line 1 is empty", `line 2 (offset 1): not JSON at byte 1: unexpected 'x'`}, says: "user s"},
		{name: "meta line glued to half a record before the marker", file: strings.TrimSpace(frameMeta) + `{"role":"us` + "\n" + `{"compact":"s"}` + "\n", kinds: "bad>meta marker", says: "user s", check: func(c *Context) bool { return c.Meta.Agent != "" }},

		// Title and run time (S13).
		{name: "last meta record counts", line: `{"meta":{"title":"a","uptime_secs":1}}` + "\n" + `{"meta":{"title":"b","uptime_secs":2}}`, kinds: "meta-record meta-record", check: func(c *Context) bool { return c.Meta.Title == "b" && c.Meta.UptimeSecs == 2 }},
		{name: "title before the marker", line: `{"meta":{"title":"a","uptime_secs":1}}` + "\n" + `{"compact":"s"}`, kinds: "meta-record marker", says: "user s|user 2", check: func(c *Context) bool { return c.Meta.Title == "" }},
		{name: "title before the last marker and an unknown record", file: frameMeta + `{"meta":{"title":"a","uptime_secs":1}}` + "\n" + `{"compact":"s"}` + "\n{}\n", kinds: "meta blank meta-record marker unknown", says: "user s", check: func(c *Context) bool { return c.Meta.Title == "" && len(AppendMissing(nil, c)) == 0 }},
		{name: "title before the marker that is last", file: frameMeta + `{"meta":{"title":"a","uptime_secs":1}}` + "\n" + frameBefore + `{"compact":"s"}` + "\n", kinds: "meta blank meta-record message marker", says: "user s", check: func(c *Context) bool {
			return c.Meta.Title == "a" && c.Meta.UptimeSecs == 1 && len(AppendMissing(nil, c)) > 0
		}},
		{name: "title before the marker whose record is torn", file: frameMeta + `{"meta":{"title":"a","uptime_secs":1}}` + "\n" + `{"compact":"s"}` + "\n" + `{"meta":{"ti`, kinds: "meta blank meta-record marker bad", says: "user s", torn: 12, check: func(c *Context) bool { return c.Meta.Title == "a" }},
		{name: "no title before the marker that is last", file: `{"agent":"a","created_by":"b","created_at":"c","title":"t","uptime_secs":7}` + "\n" + `{"compact":"s"}` + "\n", kinds: "meta marker", says: "user s", check: func(c *Context) bool { return c.Meta.Title == "t" && c.Meta.UptimeSecs == 7 }},
		{name: "greater run time in line 1", file: `{"agent":"a","created_by":"b","created_at":"c","title":"t","uptime_secs":7}` + "\n" + `{"meta":{"title":"u","uptime_secs":3}}` + "\n", kinds: "meta meta-record", check: func(c *Context) bool { return c.Meta.Title == "u" && c.Meta.UptimeSecs == 7 }},
	}
}

func TestHostile(t *testing.T) {
	names := map[string]bool{}
	rows := hostiles()
	for _, row := range rows {
		if names[row.name] {
			t.Errorf("two rows are called %q", row.name)
		}
		names[row.name] = true
		t.Run(row.name, func(t *testing.T) { row.run(t) })
	}
	if len(rows) < minHostile {
		t.Errorf("%d rows, want at least %d", len(rows), minHostile)
	}
	t.Logf("hostile files: %d", len(rows))
}

// run reads the file every way there is.
func (row hostile) run(t *testing.T) {
	if row.line != "" {
		row.frame()
	}
	data := []byte(row.file)
	size := int64(len(data))
	var kinds []string
	var messages, damaged, glued int
	var number, at int64
	var tail, identity bool
	for l, err := range lines(bytes.NewReader(data), 0, size, row.limit) {
		if err != nil {
			t.Fatal(err)
		}
		k := strings.ReplaceAll(l.Kind.String(), " ", "-")
		if (l.Err != nil) != (l.Kind == record.KindBad) || l.Glued != (glued > 0) || l.Pieces > 0 && l.Kind != record.KindBad {
			t.Errorf("line %d: kind %v, glued %v, %d pieces, error %v", l.Number, l.Kind, l.Glued, l.Pieces, l.Err)
		}
		if l.Glued {
			glued--
			kinds[len(kinds)-1] += ">" + k
		} else {
			kinds = append(kinds, k)
			if glued = l.Pieces; tail && l.Torn {
				number-- // the rest of the line before
			}
			if number++; l.Number != number {
				t.Errorf("line %d says it is %d", number, l.Number)
			}
			if l.Offset != at || string(l.Raw) != row.file[at:at+int64(len(l.Raw))] {
				t.Errorf("line %d at %d: %q, want it at %d", number, l.Offset, l.Raw, at)
			}
			if at += l.Size; at < size && row.file[at] == '\n' {
				at++
			}
		}
		if tail = l.Tail; tail != !strings.Contains(row.file[l.Offset:], "\n") || l.Torn != (l.Offset+l.Size == size && tail && l.Pieces == 0) {
			t.Errorf("line %d: tail %v, torn %v", l.Number, l.Tail, l.Torn)
		}
		if l.Torn && row.torn > 0 {
			continue
		}
		if l.Kind == record.KindMessage {
			messages++
		}
		if l.Kind == record.KindBad || l.Number == 1 && l.Kind != record.KindMeta && !l.Glued {
			damaged++
		}
		if l.Kind == record.KindMeta {
			identity = true
		}
	}
	if glued != 0 || at != size {
		t.Errorf("%d pieces are missing, the lines are %d bytes of %d", glued, at, size)
	}
	if got := strings.Join(kinds, " "); got != row.kinds {
		t.Errorf("kinds:\n got %s\nwant %s", got, row.kinds)
	}

	lenient, err := ReadContext(bytes.NewReader(data), size, &ReadOptions{Lenient: true, MaxLine: row.limit})
	if err != nil {
		t.Fatalf("lenient: %v", err)
	}
	var damage []string
	for _, d := range lenient.Damage {
		damage = append(damage, (&record.FormatError{Line: d.Line, Offset: d.Offset, Msg: d.Msg}).Error())
	}
	if !slices.Equal(damage, row.damage) || lenient.Damaged != len(damage) {
		t.Errorf("damage (%d):\n got %q\nwant %q", lenient.Damaged, damage, row.damage)
	}
	if got := said(lenient.Messages); got != row.says {
		t.Errorf("messages:\n got %q\nwant %q", got, row.says)
	}
	if lenient.Messages == nil {
		t.Error("no list of messages")
	}
	if lenient.Torn != row.torn {
		t.Errorf("torn %d, want %d", lenient.Torn, row.torn)
	}
	if row.check != nil && !row.check(lenient) {
		t.Errorf("context %+v", lenient)
	}

	strict, err := ReadContext(bytes.NewReader(data), size, &ReadOptions{MaxLine: row.limit})
	switch {
	case len(row.damage) == 0 || row.resumes:
		if err != nil {
			t.Errorf("strict: %v", err)
		} else if got, want := fmt.Sprintf("%+v", strict), fmt.Sprintf("%+v", lenient); got != want {
			t.Errorf("strict %s\nlenient %s", got, want)
		}
	default:
		want := row.strict
		if want == "" {
			want = row.damage[len(row.damage)-1]
		}
		if err == nil || err.Error() != want {
			t.Errorf("strict: %v, want %s", err, want)
		}
	}

	var c Counter
	tally, err := c.Count(bytes.NewReader(data), size, row.limit)
	if err != nil {
		t.Fatal(err)
	}
	if size == 0 || row.torn == size {
		damaged = 1
	}
	if tally.Messages != messages || tally.Damaged != damaged || tally.Torn != row.torn || tally.Meta != lenient.Meta ||
		tally.identity != identity {
		t.Errorf("counted %+v, want %d messages, %d damaged, %+v", tally, messages, damaged, lenient.Meta)
	}
}

// frame puts the line in the frame.
func (row *hostile) frame() {
	row.file = frameMeta + frameBefore + row.line + "\n" + frameAfter
	marker := strings.Contains(row.kinds, "marker")
	row.kinds = "meta blank message " + row.kinds + " message"
	if !marker {
		says := "user 1"
		if row.says != "" {
			says += "|" + row.says
		}
		row.says = says + "|user 2"
	}
	for i, d := range row.damage {
		if !strings.HasPrefix(d, "line ") {
			row.damage[i] = "line 4 (offset 80): " + d
		}
	}
}

// said formats messages as in the rows.
func said(ms []Message) string {
	var b strings.Builder
	for i, m := range ms {
		if i > 0 {
			b.WriteByte('|')
		}
		fmt.Fprintf(&b, "%s %s", m.Role, m.Content)
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, "+call%s %s:%s", c.ID, c.Function.Name, c.Function.Arguments)
		}
	}
	return b.String()
}
