package sessionref_test

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/seed"
	"crabmem/fuzz/sessionref"
	"crabmem/sessionlog"
)

var (
	files = flag.Int("files", 3_000, "number of random session files")
)

// run calls f for each file. The generator of a file depends only on the seed and
// on the number of the file. run returns the number of files.
func run(t *testing.T, f func(t *testing.T, rng *rand.Rand, i int)) (n int) {
	t.Helper()
	s := seed.Of(t)
	n = *files
	if testing.Short() {
		n = min(n, 1000)
	}
	for i := range n {
		f(t, rand.New(rand.NewPCG(s, uint64(i))), i)
		if t.Failed() {
			t.Fatalf("seed %d, file %d", s, i)
		}
	}
	t.Logf("files: %d (seed %d)", n, s)
	return n
}

// folder writes files to an empty file system and opens their folder.
func folder(t *testing.T, files map[string][]byte) (*faultfs.Mem, *sessionlog.Dir) {
	t.Helper()
	fs := faultfs.NewMem()
	if err := fs.Mkdir("/s", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		fs.WriteFile("/s/"+name, data, 0o600)
	}
	dir, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	return fs, dir
}

func readFile(t *testing.T, fs *faultfs.Mem, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// difference returns the difference of two values, or "". It avoids cmp.Diff, which
// is slow, for equal values.
func difference(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got)
}

// pieces are parts of random texts: difficult cases of JSON, UTF-8, line ends, and
// the session format.
var pieces = []string{
	"a", "the crab ", "Zürich", "螃蟹", "カニ", "한", "كراب", "हिन्दी", "🦀", "👩‍👩‍👧", "e\u0301",
	"\"", "\\", "\\\\", "\\n", "\\u0041", "\\ud83e", "/", "<b>", "&amp;", "'",
	"\n", "\r", "\r\n", "\t", "\b", "\f", "\v", "\x00", "\x01", "\x1b[0m", "\x1f", "\x7f",
	"\u0085", "\u00a0", "\u2028", "\u2029", "\u202e", "\ufeff", "\ufffd", "\ufffe", "\U0010ffff",
	`{"role":"user","content":"x"}`, `{"compact":"x"}`, `{"meta":{"title":"x"}}`, `"compact"`, `"role":`, "{", "}", "[", "]",
	"{\n\"role\":\"user\"}\n", "null", "0", " ", "   ", "",
}

// drawText returns a random text of up to most pieces, and rarely a long one.
func drawText(rng *rand.Rand, most int) string {
	var b strings.Builder
	for range rng.IntN(most + 1) {
		b.WriteString(pieces[rng.IntN(len(pieces))])
	}
	if rng.IntN(300) == 0 {
		b.WriteString(strings.Repeat("sideways 横 ", rng.IntN(9000)))
	}
	return b.String()
}

// drawMessage returns a random message. If calls are open, it is mostly a result of
// one of them. ids is the number of calls in the session.
func drawMessage(rng *rand.Rand, open *[]string, ids *int) sessionref.Message {
	if len(*open) > 0 && rng.IntN(10) > 0 {
		i := rng.IntN(len(*open))
		id := (*open)[i]
		*open = append((*open)[:i], (*open)[i+1:]...)
		return sessionref.Message{Role: "tool", Content: drawText(rng, 6), ToolCallID: id}
	}
	m := sessionref.Message{
		Role:    []string{"user", "user", "user", "assistant", "assistant", "system", "developer", "critic", "蟹"}[rng.IntN(9)],
		Content: drawText(rng, 8),
	}
	switch rng.IntN(12) {
	case 0:
		m.ReasoningContent = drawText(rng, 5)
	case 1: // a result without a call
		m.Role, m.ToolCallID = "tool", fmt.Sprint("nobody", rng.IntN(9))
	case 2, 3, 4:
		m.Role = "assistant"
		for range 1 + rng.IntN(3) {
			*ids++
			c := sessionref.Call{ID: fmt.Sprint("call<", *ids, ">"), Type: "function", Name: "bash", Arguments: `{"x":` + drawText(rng, 3)}
			switch rng.IntN(6) {
			case 0:
				c.Arguments = ""
			case 1:
				c.Name = drawText(rng, 2)
			case 2:
				c.Type = "custom"
			}
			*open = append(*open, c.ID)
			m.ToolCalls = append(m.ToolCalls, c)
		}
	}
	return m
}

// toSessionlog converts a message of sessionref to one of sessionlog.
func toSessionlog(m sessionref.Message) sessionlog.Message {
	o := sessionlog.Message{
		Role:             m.Role,
		Content:          m.Content,
		ReasoningContent: m.ReasoningContent,
		ToolCallID:       m.ToolCallID,
	}
	for _, c := range m.ToolCalls {
		o.ToolCalls = append(o.ToolCalls, sessionlog.ToolCall{ID: c.ID, Type: c.Type, Function: sessionlog.Function{Name: c.Name, Arguments: c.Arguments}})
	}
	return o
}

// toReference converts messages of sessionlog to messages of sessionref.
func toReference(ms []sessionlog.Message) []sessionref.Message {
	var all []sessionref.Message
	for _, m := range ms {
		r := sessionref.Message{
			Role:             m.Role,
			Content:          m.Content,
			ReasoningContent: m.ReasoningContent,
			ToolCallID:       m.ToolCallID,
		}
		for _, c := range m.ToolCalls {
			r.ToolCalls = append(r.ToolCalls, sessionref.Call{ID: c.ID, Type: c.Type, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
		all = append(all, r)
	}
	return all
}

func metaOf(m sessionlog.Meta) sessionref.Meta {
	return sessionref.Meta{Agent: m.Agent, CreatedBy: m.CreatedBy, CreatedAt: m.CreatedAt, Title: m.Title, UptimeSecs: m.UptimeSecs}
}

// answered implements rule S11 independently of sessionlog. It adds a result to each
// call without one, and omits results without a call.
func answered(ms []sessionref.Message) []sessionref.Message {
	var out []sessionref.Message
	var open []string
	settle := func() {
		for _, id := range open {
			out = append(out, sessionref.Message{Role: "tool", Content: "error: no result was recorded for this call", ToolCallID: id})
		}
		open = nil
	}
	for _, m := range ms {
		if m.Role != "tool" {
			settle()
			for _, c := range m.ToolCalls {
				open = append(open, c.ID)
			}
			out = append(out, m)
			continue
		}
		for i, id := range open {
			if id == m.ToolCallID {
				open = append(open[:i:i], open[i+1:]...)
				out = append(out, m)
				break
			}
		}
	}
	settle()
	return out
}
