package sessionref_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"crabmem/fuzz/sessionref"
	"crabmem/sessionlog"
)

// TestBytes: sessionlog writes what serde_json writes, and arguments always.
func TestBytes(t *testing.T) {
	for _, c := range messageLines {
		m := ours(c.message)
		if got := string(sessionlog.AppendMessage([]byte("x"), &m)); got != "x"+c.line+"\n" {
			t.Errorf("wrote %s\nwant  %s", got, c.line)
		}
		if got, err := m.MarshalJSON(); err != nil || string(got) != c.line {
			t.Errorf("marshalled %s, %v\nwant %s", got, err, c.line)
		}
		for _, line := range []string{c.line, c.bug} {
			if line == "" {
				continue
			}
			var back sessionlog.Message
			if err := json.Unmarshal([]byte(line), &back); err != nil {
				t.Errorf("%s: %v", line, err)
			} else if diff := cmp.Diff(m, back); diff != "" {
				t.Errorf("%s (-want +got):\n%s", line, diff)
			}
		}
	}
	for _, c := range markerLines {
		if got := string(sessionlog.AppendMarker(nil, c.summary)); got != c.line+"\n" {
			t.Errorf("wrote %s\nwant  %s", got, c.line)
		}
	}
	for _, c := range metaLines {
		m := sessionlog.Meta{Agent: c.meta.Agent, CreatedBy: c.meta.CreatedBy, CreatedAt: c.meta.CreatedAt, Title: c.meta.Title, UptimeSecs: c.meta.UptimeSecs}
		if got := string(sessionlog.AppendMeta(nil, &m)); got != c.line+"\n" {
			t.Errorf("wrote %s\nwant  %s", got, c.line)
		}
		var back sessionlog.Meta
		if err := json.Unmarshal([]byte(c.line), &back); err != nil || back != m {
			t.Errorf("%s: read as %v, %v", c.line, back, err)
		}
	}
	const record = `{"meta":{"title":"Which port","uptime_secs":12}}` + "\n"
	if got := string(sessionlog.AppendMetaRecord(nil, "Which port", 12)); got != record {
		t.Errorf("wrote %s\nwant  %s", got, record)
	}

	// The defaults, and what is never written.
	m := sessionlog.Message{Role: "user", Content: "x", Sender: "tg:1", Injected: true, ToolCalls: []sessionlog.ToolCall{{}}}
	const line = `{"role":"user","content":"x","tool_calls":[{"type":"function","function":{"arguments":""}}]}` + "\n"
	if got := string(sessionlog.AppendMessage(nil, &m)); got != line {
		t.Errorf("wrote %s\nwant  %s", got, line)
	}
	t.Logf("lines: %d messages, %d markers, %d metas", len(messageLines), len(markerLines), len(metaLines))
}

// TestSlugs: both slug alike, the whole of Unicode.
func TestSlugs(t *testing.T) {
	for _, c := range slugs {
		if got := sessionlog.Slug(c.text); got != c.slug {
			t.Errorf("%q: %q, want %q", c.text, got, c.slug)
		}
	}
	runes := 0
	for r := rune(0); r <= 0x10ffff; r++ {
		if 0xd800 <= r && r < 0xe000 {
			continue
		}
		s := "A" + string(r) + "b-" + string(r)
		if got, want := sessionlog.Slug(s), sessionref.Slug(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
		runes++
	}
	t.Logf("slugs: %d, and of %d characters", len(slugs), runes)
}
