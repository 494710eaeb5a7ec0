package sessionref_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"crabmem/fuzz/sessionref"
)

// golden is a session of the reference with the expected results.
// testdata/sessions/reference/README.md describes the fields.
type golden struct {
	file string
	data []byte

	Why      string
	ID       string
	Meta     metaText
	Messages int
	Markers  int
	Context  []messageText
	Resumes  bool
	Bad      []badText
	Unknown  []int
	Dropped  []int
	Torn     int64

	ReferenceSkips []int `json:"reference_skips"`
	ReferenceFails bool  `json:"reference_fails"`
}

type metaText struct {
	Agent      string
	CreatedBy  string `json:"created_by"`
	CreatedAt  string `json:"created_at"`
	Title      string
	UptimeSecs uint64 `json:"uptime_secs"`
}

type messageText struct {
	Only             string // the only reader with this message: crabmem or reference; "" for both
	Role             string
	Content          string
	Times            int
	ReasoningContent string `json:"reasoning_content"`
	ReasoningTimes   int    `json:"reasoning_times"`
	ToolCallID       string `json:"tool_call_id"`
	ToolCalls        []struct {
		ID, Type, Name, Arguments string
	} `json:"tool_calls"`
}

type badText struct {
	Line   int
	Reason string
	Glued  bool
}

const goldenFiles = 23

// loadGolden returns all golden sessions.
func loadGolden(t *testing.T) []*golden {
	t.Helper()
	dir := filepath.Join("..", "..", "testdata", "sessions", "reference")
	names, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(names) != goldenFiles {
		t.Fatalf("%d golden sessions, want %d: %v", len(names), goldenFiles, err)
	}
	var all []*golden
	for _, name := range names {
		g := &golden{file: filepath.Base(name)}
		if g.data, err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(strings.TrimSuffix(name, "l"))
		if err != nil {
			t.Fatal(err)
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(g); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, g)
	}
	return all
}

// context returns the expected context of a reader, crabmem or reference.
func (g *golden) context(reader string) []sessionref.Message {
	var ms []sessionref.Message
	for _, text := range g.Context {
		if text.Only != "" && text.Only != reader {
			continue
		}
		m := sessionref.Message{
			Role:             text.Role,
			Content:          strings.Repeat(text.Content, max(1, text.Times)),
			ReasoningContent: strings.Repeat(text.ReasoningContent, max(1, text.ReasoningTimes)),
			ToolCallID:       text.ToolCallID,
		}
		for _, c := range text.ToolCalls {
			m.ToolCalls = append(m.ToolCalls, sessionref.Call(c))
		}
		ms = append(ms, m)
	}
	return ms
}

func TestGoldenByReference(t *testing.T) {
	skipped, fail := 0, 0
	for _, g := range loadGolden(t) {
		s, err := sessionref.Read(g.data)
		if (err != nil) != g.ReferenceFails {
			t.Errorf("%s: %v; want an error: %t", g.file, err, g.ReferenceFails)
		}
		if err != nil {
			fail++
			continue
		}
		if diff := cmp.Diff(sessionref.Meta(g.Meta), s.Meta); diff != "" {
			t.Errorf("%s: meta (-want +got):\n%s", g.file, diff)
		}
		if diff := cmp.Diff(g.context("reference"), s.Context); diff != "" {
			t.Errorf("%s: context (-want +got):\n%s", g.file, diff)
		}
		var lines []int
		for _, l := range s.Skipped {
			lines = append(lines, l.Line)
		}
		if !slices.Equal(lines, g.ReferenceSkips) {
			t.Errorf("%s: lines %v skipped, want %v", g.file, lines, g.ReferenceSkips)
		}
		skipped += len(lines)
	}
	t.Logf("golden sessions: %d, lines that the reference skips: %d, sessions that it cannot load: %d", goldenFiles, skipped, fail)
}
