package sessionref_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"crabmem/fuzz/sessionref"
)

// messageLines are messages with the bytes that serde_json writes for them.
var messageLines = []struct {
	message sessionref.Message
	line    string
	bug     string // the line that the reference writes, if it differs
}{
	{sessionref.Message{Role: "user", Content: "hello"}, `{"role":"user","content":"hello"}`, ""},
	{sessionref.Message{Role: "assistant", Content: "hi there"}, `{"role":"assistant","content":"hi there"}`, ""},
	{sessionref.Message{Role: "assistant"}, `{"role":"assistant"}`, ""},
	{sessionref.Message{Role: "critic", Content: "no"}, `{"role":"critic","content":"no"}`, ""},
	{sessionref.Message{Role: "系", Content: "统"}, `{"role":"系","content":"统"}`, ""},
	{sessionref.Message{Role: "a\"b", Content: " "}, `{"role":"a\"b","content":" "}`, ""},
	{sessionref.Message{Role: "tool", Content: "out", ToolCallID: "c1"}, `{"role":"tool","content":"out","tool_call_id":"c1"}`, ""},
	{sessionref.Message{Role: "tool", ToolCallID: "c<1>"}, `{"role":"tool","tool_call_id":"c<1>"}`, ""},
	{sessionref.Message{Role: "assistant", ReasoningContent: "hm"}, `{"role":"assistant","reasoning_content":"hm"}`, ""},
	{
		sessionref.Message{Role: "assistant", Content: "c", ReasoningContent: "r", ToolCallID: "t", ToolCalls: []sessionref.Call{{"i", "function", "n", "{}"}}},
		`{"role":"assistant","content":"c","reasoning_content":"r","tool_call_id":"t","tool_calls":[{"id":"i","type":"function","function":{"name":"n","arguments":"{}"}}]}`, "",
	},
	{
		sessionref.Message{Role: "assistant", ToolCalls: []sessionref.Call{{"", "function", "", "x"}, {"2", "custom", "", "y"}, {"", "f<>&", "z", "\"\\"}}},
		`{"role":"assistant","tool_calls":[{"type":"function","function":{"arguments":"x"}},{"id":"2","type":"custom","function":{"arguments":"y"}},{"type":"f<>&","function":{"name":"z","arguments":"\"\\"}}]}`, "",
	},
	{
		sessionref.Message{Role: "assistant", ToolCalls: []sessionref.Call{{"i", "function", "n", ""}, {"", "function", "", ""}}},
		`{"role":"assistant","tool_calls":[{"id":"i","type":"function","function":{"name":"n","arguments":""}},{"type":"function","function":{"arguments":""}}]}`,
		`{"role":"assistant","tool_calls":[{"id":"i","type":"function","function":{"name":"n"}},{"type":"function","function":{}}]}`,
	},
	{
		sessionref.Message{Role: "assistant", ToolCalls: []sessionref.Call{{"i", "function", "bash", `{"command":"echo \"a\\nb\" > é.txt"}`}}},
		`{"role":"assistant","tool_calls":[{"id":"i","type":"function","function":{"name":"bash","arguments":"{\"command\":\"echo \\\"a\\\\nb\\\" > é.txt\"}"}}]}`, "",
	},
	{sessionref.Message{Role: "user", Content: "\x00\x01\x02\x03\x04\x05\x06\x07"}, `{"role":"user","content":"\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007"}`, ""},
	{sessionref.Message{Role: "user", Content: "\b\t\n\v\f\r\x0e\x0f"}, `{"role":"user","content":"\b\t\n\u000b\f\r\u000e\u000f"}`, ""},
	{sessionref.Message{Role: "user", Content: "\x10\x11\x19\x1a\x1b\x1e\x1f\x20\x7f"}, "{\"role\":\"user\",\"content\":\"\\u0010\\u0011\\u0019\\u001a\\u001b\\u001e\\u001f \x7f\"}", ""},
	{sessionref.Message{Role: "user", Content: `"quoted" \ and / 'single'`}, `{"role":"user","content":"\"quoted\" \\ and / 'single'"}`, ""},
	{sessionref.Message{Role: "user", Content: `<a href="x">&amp;</a>`}, `{"role":"user","content":"<a href=\"x\">&amp;</a>"}`, ""},
	{sessionref.Message{Role: "user", Content: "\u2028\u2029\u0085\u00a0"}, "{\"role\":\"user\",\"content\":\"\xe2\x80\xa8\xe2\x80\xa9\xc2\x85\xc2\xa0\"}", ""},
	{sessionref.Message{Role: "user", Content: "🦀👩‍👩‍👧\U0010ffff"}, "{\"role\":\"user\",\"content\":\"\xf0\x9f\xa6\x80👩‍👩‍👧\xf4\x8f\xbf\xbf\"}", ""},
	{sessionref.Message{Role: "user", Content: "\ufeff\ufffd\ufffe\uffff"}, "{\"role\":\"user\",\"content\":\"\xef\xbb\xbf\xef\xbf\xbd\xef\xbf\xbe\xef\xbf\xbf\"}", ""},
	{sessionref.Message{Role: "user", Content: "e\u0301 İ ς ﷽ \u202e"}, "{\"role\":\"user\",\"content\":\"e\u0301 İ ς ﷽ \u202e\"}", ""},
	{sessionref.Message{Role: "user", Content: `{"role":"user","content":"in"}`}, `{"role":"user","content":"{\"role\":\"user\",\"content\":\"in\"}"}`, ""},
	{sessionref.Message{Role: "user", Content: `\u0041\n`}, `{"role":"user","content":"\\u0041\\n"}`, ""},
}

var markerLines = []struct{ summary, line string }{
	{"Summary of conversation so far...", `{"compact":"Summary of conversation so far..."}`},
	{"", `{"compact":""}`},
	{"- a\n- \"b\"\t<c>&\u2028\x1b", "{\"compact\":\"- a\\n- \\\"b\\\"\\t<c>&\xe2\x80\xa8\\u001b\"}"},
	{"螃蟹 🦀", `{"compact":"螃蟹 🦀"}`},
}

var metaLines = []struct {
	meta sessionref.Meta
	line string
}{
	{sessionref.Meta{Agent: "crab", CreatedBy: "user", CreatedAt: "..."}, `{"agent":"crab","created_by":"user","created_at":"...","title":"","uptime_secs":0}`},
	{sessionref.Meta{}, `{"agent":"","created_by":"","created_at":"","title":"","uptime_secs":0}`},
	{sessionref.Meta{"蟹 <1>", "tg:1\n", "2026-04-14T10:23:45.123456789+00:00", `"&"`, 18446744073709551615}, `{"agent":"蟹 <1>","created_by":"tg:1\n","created_at":"2026-04-14T10:23:45.123456789+00:00","title":"\"&\"","uptime_secs":18446744073709551615}`},
}

func TestLinesOfReference(t *testing.T) {
	const first = `{"agent":"a","created_by":"b","created_at":"c"}` + "\n"
	for _, c := range messageLines {
		want := c.line
		if c.bug != "" {
			want = c.bug
		}
		if got := string(sessionref.AppendMessage(nil, c.message)); got != want+"\n" {
			t.Errorf("wrote %s\nwant  %s", got, want)
		}
		s, err := sessionref.Read([]byte(first + c.line + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]sessionref.Message{c.message}, s.Context); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.line, diff)
		}
		if c.bug == "" {
			continue
		}
		if s, err = sessionref.Read([]byte(first + c.bug + "\n")); err != nil || len(s.Context) != 0 || len(s.Skipped) != 1 {
			t.Errorf("%s: read as %v, %v", c.bug, s, err)
		}
	}
	for _, c := range markerLines {
		if got := string(sessionref.AppendMarker(nil, c.summary)); got != c.line+"\n" {
			t.Errorf("wrote %s\nwant  %s", got, c.line)
		}
		s, err := sessionref.Read([]byte(first + c.line))
		if err != nil || len(s.Records) != 1 || !s.Records[0].Marker || s.Records[0].Summary != c.summary {
			t.Errorf("%s: read as %v, %v", c.line, s, err)
		}
	}
	for _, c := range metaLines {
		if got := string(sessionref.AppendMeta(nil, c.meta)); got != c.line+"\n" {
			t.Errorf("wrote %s\nwant  %s", got, c.line)
		}
		if s, err := sessionref.Read([]byte(c.line)); err != nil || s.Meta != c.meta {
			t.Errorf("%s: read as %v, %v", c.line, s, err)
		}
	}
	t.Logf("lines: %d messages, %d markers, %d metas", len(messageLines), len(markerLines), len(metaLines))
}

// TestStrictness checks input that serde_json refuses.
func TestStrictness(t *testing.T) {
	const first = `{"agent":"a","created_by":"b","created_at":"c"}`
	lines := []struct {
		line string
		ok   bool
	}{
		{`{"role":"user"}`, true},
		{` {"role":"user"}	` + "\r", true},
		{`{"role":"user","x":1,"x":2}`, true}, // unknown keys may be repeated
		{`{"role":"user","x":"\ud800"}`, true},
		{`{"role":"user","sender":7,"auto_injected":true}`, true},
		{`{"\u0072ole":"user","con\u0074ent":"x"}`, true},
		{`{"role":"user","tool_calls":[]}`, true},
		{`{"role":"a","tool_calls":[{"function":{"arguments":""}}]}`, true},
		{`{"role":"a","tool_calls":[{"index":4294967295,"function":{"arguments":""}}]}`, true},
		{`{"role":"a","content":"\ud83e\udd80"}`, true},

		{`{"Role":"user"}`, false},
		{`{"role":"user","role":"user"}`, false},
		{`{"role":"user","r\u006fle":"user"}`, false},
		{`{"role":null}`, false},
		{`{"role":1}`, false},
		{`{"role":"user","content":null}`, false},
		{`{"role":"user","reasoning_content":null}`, false},
		{`{"role":"user","tool_call_id":3}`, false},
		{`{"role":"user","tool_calls":null}`, false},
		{`{"role":"user","tool_calls":{}}`, false},
		{`{"role":"user","tool_calls":[null]}`, false},
		{`{"role":"user","tool_calls":[{}]}`, false},
		{`{"role":"user","tool_calls":[{"function":null}]}`, false},
		{`{"role":"user","tool_calls":[{"function":{}}]}`, false},
		{`{"role":"user","tool_calls":[{"function":{"arguments":{}}}]}`, false},
		{`{"role":"user","tool_calls":[{"function":{"arguments":"","arguments":""}}]}`, false},
		{`{"role":"user","tool_calls":[{"type":null,"function":{"arguments":""}}]}`, false},
		{`{"role":"user","tool_calls":[{"index":-1,"function":{"arguments":""}}]}`, false},
		{`{"role":"user","tool_calls":[{"index":4294967296,"function":{"arguments":""}}]}`, false},
		{`{"role":"user","content":"\ud800"}`, false},
		{`{"role":"user","content":"\ud800\u0041"}`, false},
		{`{"role":"user","content":"\ud800\ud800"}`, false},
		{`{"role":"user","content":"\udc00\ud800"}`, false},
		{`{"role":"user","content":"\ud83ex\udd80"}`, false},
		{`{"role":"user","\ud800":1}`, false},
		{"{\"role\":\"user\",\"content\":\"a\tb\"}", false},
		{`{"role":"user"} {}`, false},
		{`{"role":"user",}`, false},
		{`{"role":'user'}`, false},
		{`{"role":"user","x":NaN}`, false},
		{`{"role":"user","x":01}`, false},
		{"\ufeff" + `{"role":"user"}`, false},
		{`{"content":"x"}`, false},
		{`{"meta":{"title":"t","uptime_secs":1}}`, false},
		{`null`, false},
		{`[5]`, false},
		{`{`, false},
	}
	for _, c := range lines {
		s, err := sessionref.Read([]byte(first + "\n" + c.line + "\n"))
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		if read := len(s.Records) == 1; read != c.ok || read == (len(s.Skipped) == 1) {
			t.Errorf("%s: read %t, want %t; skipped: %v", c.line, read, c.ok, s.Skipped)
		}
	}

	files := []struct {
		data string
		ok   bool
	}{
		{first, true},
		{first + "\n", true},
		{first + "\r\n", true},
		{`{"uptime_secs":18446744073709551615,"created_by":"","agent":"","created_at":"","source":9}`, true},
		{first + "\n\u3000\u00a0\v\f\n", true},

		{"", false},
		{"\n" + first, false},
		{"\ufeff" + first, false},
		{`{"agent":"a","created_by":"b"}`, false},
		{`{"agent":"a","created_by":"b","created_at":null}`, false},
		{`{"agent":"a","created_by":"b","created_at":"c","title":null}`, false},
		{`{"agent":"a","created_by":"b","created_at":"c","title":"","title":""}`, false},
		{`{"agent":"a","created_by":"b","created_at":"c","uptime_secs":1.0}`, false},
		{`{"agent":"a","created_by":"b","created_at":"c","uptime_secs":1e3}`, false},
		{`{"agent":"a","created_by":"b","created_at":"c","uptime_secs":-0}`, false},
		{`{"agent":"a","created_by":"b","created_at":"c","uptime_secs":"1"}`, false},
		{`{"agent":"a","created_by":"b","created_at":"c","uptime_secs":18446744073709551616}`, false},
		{first + first + "\n", false},
		{first + "\nnothing of the kind \xff\n" + `{"role":"user"}` + "\n", false},
		{first + "\n" + `{"role":"user","content":"` + "\xe6\x98", false},
	}
	for _, c := range files {
		s, err := sessionref.Read([]byte(c.data))
		if (err == nil) != c.ok || err == nil && (len(s.Records) > 0 || len(s.Skipped) > 0) {
			t.Errorf("%q: %v, %v", c.data, s, err)
		}
	}
	t.Logf("lines: %d, files: %d", len(lines), len(files))

	// A carriage return is part of a line end only before a newline.
	s, err := sessionref.Read([]byte(first + "\r\none\r\n\rtwo\r\r\nthree\r"))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, l := range s.Skipped {
		texts = append(texts, l.Text)
	}
	if diff := cmp.Diff([]string{"one", "\rtwo\r", "three\r"}, texts); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
}

// TestMarkers checks that each object with exactly one string at the key compact is
// a marker. The context must begin at the last marker.
func TestMarkers(t *testing.T) {
	const first = `{"agent":"a","created_by":"b","created_at":"c"}` + "\n"
	for line, marker := range map[string]bool{
		`{"compact":"s"}`:                                 true,
		`{"x":[{}],"compact":"s","y":null}`:               true,
		`{"role":"user","content":"c","compact":"s"}`:     true,
		`{"compact":"s","role":9}`:                        true,
		`{"compact":"\ud83e\udd80"}`:                      true,
		`{"compact":null}`:                                false,
		`{"compact":1}`:                                   false,
		`{"compact":"a","compact":"b"}`:                   false,
		`{"Compact":"s"}`:                                 false,
		`{"compact":"s"`:                                  false,
		`{"compact":"\ud83e"}`:                            false,
		`"compact"`:                                       false,
		`{"role":"user","content":"{\"compact\":\"s\"}"}`: false,
	} {
		s, err := sessionref.Read([]byte(first + line))
		if err != nil {
			t.Fatal(err)
		}
		if got := len(s.Records) == 1 && s.Records[0].Marker; got != marker {
			t.Errorf("%s: marker: %t, want %t", line, got, marker)
		}
	}

	file := first + `{"role":"user","content":"1"}
{"compact":"first"}
{"role":"user","content":"2"}
{"compact":"second"}
{"compact":"third"}
{"role":"user","content":"3"}
`
	s, err := sessionref.Read([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	want := []sessionref.Message{{Role: "user", Content: "third"}, {Role: "user", Content: "3"}}
	if diff := cmp.Diff(want, s.Context); diff != "" {
		t.Errorf("context (-want +got):\n%s", diff)
	}
	if n := len(s.Messages()); n != 3 || len(s.Records) != 6 {
		t.Errorf("%d messages in %d records, want 3 in 6", n, len(s.Records))
	}
}

// TestFile checks the operations of File and their interaction.
func TestFile(t *testing.T) {
	f := sessionref.Create("my crab", "tg:7", 3, "t0")
	f.Append(sessionref.Message{Role: "user", Content: "one"})
	f.Compact("s")
	f.Append(sessionref.Message{Role: "user", Content: "two"})
	f.Tear(4) // "o} and the end of line
	f.AddUptime(5, "t1")
	f.Append(sessionref.Message{Role: "user", Content: "three"})
	f.SetTitle("A Title", "t2")
	f.AddUptime(2, "t3")
	f.SetTitle("another: one", "t4")
	want := `{"agent":"my crab","created_by":"tg:7","created_at":"t4","title":"another: one","uptime_secs":7}
{"role":"user","content":"one"}
{"compact":"s"}
{"role":"user","content":"tw{"role":"user","content":"three"}
`
	if diff := cmp.Diff(want, string(f.Data)); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
	if want := "my crab_tg-7_3_a-title_another-one.jsonl"; f.Name != want {
		t.Errorf("name %q, want %q", f.Name, want)
	}
	name := f.Name
	for range 30 {
		f.SetTitle("so long a title", "t5")
	}
	if len(f.Name) > 255 || len(f.Name) <= 255-len("_so-long-a-title") || f.Name[:len(name)-6] != name[:len(name)-6] {
		t.Errorf("name of %d bytes: %s", len(f.Name), f.Name)
	}
	f.Tear(len(f.Data) - 20) // part of line 1 remains
	f.AddUptime(0, "t6")
	if s, err := sessionref.Read(f.Data); err != nil || s.Meta.CreatedAt != "t6" || len(s.Records) != 0 {
		t.Errorf("rewritten: %v, %v", s, err)
	}
}
