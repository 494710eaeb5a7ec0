package foreign

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog"
	"crabmem/sessionlog/internal/line"

	"github.com/google/go-cmp/cmp"
)

var updateTranscripts = flag.Bool("transcripts.update", false, "write the .want files of the transcripts under testdata")

// transcriptFiles returns the hand-written transcripts of a tool.
func transcriptFiles(t *testing.T, tool string, want int) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../../testdata/transcripts", tool, "*.jsonl"))
	if err != nil || len(files) != want {
		t.Fatalf("%d transcripts of %s, want %d (%v)", len(files), tool, want, err)
	}
	return files
}

// describe formats a transcript: the lines of its session, each with the line
// number in the file, and the omitted items.
func describe(tr Transcript, err error) []byte {
	var b bytes.Buffer
	if tr.Meta != (sessionlog.Meta{}) {
		b.Write(line.AppendMeta(nil, &tr.Meta))
	}
	for n, i := range tr.Items {
		text := line.AppendMessage(nil, &i.Message)
		if i.Marker {
			text = line.AppendMarker(nil, i.Summary)
		}
		fmt.Fprintf(&b, "%d %s", tr.Began[n], text)
	}
	fmt.Fprintf(&b, "lines: %d\n", tr.Lines)
	for _, s := range tr.Skipped {
		fmt.Fprintf(&b, "skipped: %s: %d in lines %d\n", s.Reason, s.Count, s.Lines)
	}
	if tr.Mended.Count > 0 {
		fmt.Fprintf(&b, "mended: %d in lines %d\n", tr.Mended.Count, tr.Mended.Lines)
	}
	fmt.Fprintf(&b, "bad: %d\n", tr.BadLines)
	for _, e := range tr.Bad {
		fmt.Fprintf(&b, "bad: %v\n", e)
	}
	if err != nil {
		fmt.Fprintf(&b, "error: %v\n", err)
	}
	return b.Bytes()
}

// TestTranscripts reads the transcripts under testdata and compares each with
// its .want file.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	for tool, kind := range map[string]struct {
		*Kind
		files int
	}{
		"claude-code": {claudeCode, 6},
		"codex":       {codex, 6},
		"gemini-cli":  {gemini, 3},
	} {
		for _, file := range transcriptFiles(t, tool, kind.files) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := describe(kind.read(bytes.NewReader(data), Mark{}))
			// As slowly as a file can be read, and once more.
			if again := describe(kind.read(iotest.OneByteReader(bytes.NewReader(data)), Mark{})); !bytes.Equal(got, again) {
				t.Errorf("%s: read differently the second time:\n%s", file, cmp.Diff(string(got), string(again)))
			}
			name := strings.TrimSuffix(file, ".jsonl") + ".want"
			if *updateTranscripts {
				if err := os.WriteFile(name, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s:\n%s", file, diff)
			}
		}
	}
}

func TestTranscriptErrors(t *testing.T) {
	t.Parallel()
	user := `{"type":"user","sessionId":%q,"uuid":"1","message":{"role":"user","content":"hello"}}` + "\n"
	for _, c := range []struct {
		name string
		kind *Kind
		file string
		want error
	}{
		{"empty file", claudeCode, "", ErrNoMessages},
		{"empty file", codex, "", ErrNoMessages},
		{"empty file", gemini, "", ErrNoMessages},
		{"only a compaction", claudeCode, `{"type":"user","sessionId":"s","isCompactSummary":true,"message":{"content":"x"}}`, ErrNoMessages},
		{"no id", claudeCode, fmt.Sprintf(user, ""), ErrNoSessionID},
		{"long id", claudeCode, fmt.Sprintf(user, strings.Repeat("x", 201)), ErrNoSessionID},
		{"id of two lines", claudeCode, strings.ReplaceAll(fmt.Sprintf(user, "a@b"), "@", `\n`), ErrNoSessionID},
		{"sub-agent", codex, `{"type":"session_meta","payload":{"id":"c","thread_source":"subagent"}}
{"type":"response_item","payload":{"type":"message","role":"user","content":"x"}}`, ErrSubAgent},
		{"an id", claudeCode, fmt.Sprintf(user, "s"), nil},
	} {
		if _, err := c.kind.read(strings.NewReader(c.file), Mark{}); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s, %s: %v, want %v", c.kind.Tool, c.name, err, c.want)
		}
	}
	broken := errors.New("the disk is broken")
	for _, kind := range []*Kind{claudeCode, codex, gemini} {
		_, err := kind.read(io.MultiReader(strings.NewReader("{}\n{}\n{"), iotest.ErrReader(broken)), Mark{})
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), "line 3 (offset 6)") {
			t.Errorf("%s: %v", kind.Tool, err)
		}
	}
}

// TestTranscriptBounds reads lines at and over the limit.
func TestTranscriptBounds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	const head, tail = `{"type":"user","sessionId":"s","message":{"role":"user","content":"`, `"}}`
	fill := func(n int64, s string) io.Reader {
		return io.LimitReader(&repeating{text: strings.Repeat(s, 1<<18/len(s))}, n)
	}
	line := func(n int64, s string) io.Reader { // of n bytes
		return io.MultiReader(strings.NewReader(head), fill(n-int64(len(head+tail)), s), strings.NewReader(tail+"\n"))
	}
	for _, c := range []struct {
		name     string
		file     io.Reader
		items    int
		skipped  []Tally
		bad      string
		contents int
	}{
		{"at the limit", line(maxLine, "x"), 1, nil, "", maxLine - len(head+tail)},
		{"over it", io.MultiReader(line(maxLine+1, "x"), line(100, "y")), 1, nil,
			"line 1 (offset 0): longer than 64.0 MiB", 100 - len(head+tail)},
		{"over it without an end", io.MultiReader(line(100, "y"), strings.NewReader(head), fill(maxLine, "x")), 1, nil,
			"line 2 (offset 101): longer than 64.0 MiB", 100 - len(head+tail)},
		// Arguments are a text in a session's line, and their quotes are escaped.
		{"over it as a line of a session", io.MultiReader(
			strings.NewReader(`{"type":"assistant","sessionId":"s","message":{"content":[{"type":"tool_use","id":"1","name":"x","input":["`),
			fill(maxLine*3/4, `","`), strings.NewReader(`"]}]}}`+"\n"), line(100, "y")), 1,
			[]Tally{{tooLong, 1, []int64{1}}}, "", 100 - len(head+tail)},
	} {
		tr, err := readClaudeCode(c.file, Mark{})
		if err != nil || len(tr.Items) != c.items || len(tr.Items[0].Message.Content) != c.contents {
			t.Errorf("%s: %d items (%v)", c.name, len(tr.Items), err)
			continue
		}
		if diff := cmp.Diff(c.skipped, tr.Skipped); diff != "" {
			t.Errorf("%s: skipped:\n%s", c.name, diff)
		}
		if c.bad == "" && tr.BadLines == 0 {
			continue
		}
		if tr.BadLines != 1 || tr.Bad[0].Error() != c.bad {
			t.Errorf("%s: bad %v, want %s", c.name, tr.Bad, c.bad)
		}
	}
}

func TestTranscriptFileLimit(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64]string{10: "more than 10 bytes", 11: ""} {
		lines := newLineReader(strings.NewReader("{}\n{}\n{}\n{}"))
		lines.limit = size
		var err error
		for err == nil {
			err = lines.read()
		}
		if err == io.EOF {
			err = errors.New("")
		}
		if err.Error() != want {
			t.Errorf("a limit of %d bytes: %v", size, err)
		}
	}
}

// repeating reads as a text again and again.
type repeating struct {
	text string
	at   int
}

func (r *repeating) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

// TestTranscriptManyLines joins the lines of one answer until they fill a line
// of a session, and keeps reports of damage short.
func TestTranscriptManyLines(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 5<<20)
	answer := `{"type":"assistant","sessionId":"s","message":{"id":"m","content":[{"type":"text","text":"` + text + `"}]}}` + "\n"
	tr, err := readClaudeCode(strings.NewReader(strings.Repeat(answer, 14)), Mark{})
	if err != nil || len(tr.Items) != 2 || len(tr.Items[0].Message.Content) < 60<<20 || len(tr.Items[1].Message.Content) < len(text) {
		t.Errorf("claude-code: %d items (%v)", len(tr.Items), err)
	}
	thought := `{"type":"reasoning","summary":[{"type":"summary_text","text":"` + text + `"}]}` + "\n"
	tr, err = readCodex(strings.NewReader(`{"id":"s","timestamp":"","git":{}}`+"\n"+strings.Repeat(thought, 14)), Mark{})
	if err != nil || len(tr.Items) != 2 || len(tr.Items[0].Message.ReasoningContent) < 60<<20 {
		t.Errorf("codex: %d items (%v)", len(tr.Items), err)
	}

	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "{\"type\":\"t%d\"}\n{\"type\":\"again\"}\n[]\n", i)
	}
	tr, err = readClaudeCode(strings.NewReader(b.String()), Mark{})
	if !errors.Is(err, ErrNoMessages) || tr.Lines != 3000 || tr.BadLines != 1000 || len(tr.Bad) != maxBadLines {
		t.Errorf("%d lines, %d bad and %d of them kept (%v)", tr.Lines, tr.BadLines, len(tr.Bad), err)
	}
	var n int64
	for _, s := range tr.Skipped {
		n += s.Count
		if len(s.Lines) > maxTallyLines {
			t.Errorf("%s: %d lines kept", s.Reason, len(s.Lines))
		}
	}
	if n != 2000 || len(tr.Skipped) != maxReasons+1 {
		t.Errorf("%d skipped for %d reasons", n, len(tr.Skipped))
	}
}

// FuzzTranscript reads anything as a transcript of either tool. Whatever comes
// out is a session.
func FuzzTranscript(f *testing.F) {
	n := 0
	for _, tool := range []string{"claude-code", "codex", "gemini-cli"} {
		files, err := filepath.Glob(filepath.Join("../../testdata/transcripts", tool, "*.jsonl"))
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
			n++
		}
	}
	if n < 10 {
		f.Fatalf("%d transcripts", n)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := detectReader(bytes.NewReader(data)); err != nil {
			t.Error(err)
		}
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			if line = bytes.Trim(line, " \t\r\n"); len(line) > 0 {
				checkObject(t, line)
			}
		}
		for _, kind := range []*Kind{claudeCode, codex, gemini} {
			tr, err := kind.read(bytes.NewReader(data), Mark{})
			if again := describe(kind.read(bytes.NewReader(data), Mark{})); !bytes.Equal(again, describe(tr, err)) {
				t.Fatalf("%s: read differently the second time", kind.Tool)
			}
			if err == nil {
				checkSession(t, tr)
			}
		}
	})
}

// checkSession imports a transcript, twice, and reads the session back.
func checkSession(t *testing.T, tr Transcript) {
	t.Helper()
	if len(tr.Began) != len(tr.Items) || !slices.IsSorted(tr.Began) || tr.Began[len(tr.Began)-1] > tr.Lines {
		t.Errorf("%d items from lines %d of %d", len(tr.Items), tr.Began, tr.Lines)
	}
	dir, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: faultfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	id, changed, err := dir.Import(tr.Meta, tr.Items)
	if err != nil || !changed {
		t.Fatalf("%v (changed: %v) of\n%s", err, changed, describe(tr, nil))
	}
	if again, changed, err := dir.Import(tr.Meta, tr.Items); again != id || changed || err != nil {
		t.Errorf("the second time: %s, changed: %v (%v), want %s", again, changed, err, id)
	}
	s, err := dir.Read(id)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Context()
	if err != nil {
		t.Fatalf("%v of\n%s", err, describe(tr, nil))
	}
	if c.Meta != tr.Meta {
		t.Errorf("meta %+v, want %+v", c.Meta, tr.Meta)
	}
	if err := errors.Join(s.Close(), dir.Close()); err != nil {
		t.Error(err)
	}
}

// checkObject compares a parsed line with encoding/json.
func checkObject(t *testing.T, line []byte) {
	t.Helper()
	var want map[string]json.RawMessage
	err := json.Unmarshal(line, &want)
	got, err2 := parseObject(line)
	if wrong := err != nil || want == nil || !utf8.Valid(line); wrong != (err2 != nil) {
		t.Errorf("%q: %v and %v", line, err, err2)
	} else if wrong {
		return
	}
	if len(got) != len(want) {
		t.Errorf("%q: %d keys, want %d", line, len(got), len(want))
	}
	for k, v := range want {
		if !bytes.Equal(got[k], v) {
			t.Errorf("%q: %q is %q, want %q", line, k, got[k], v)
		}
		var s string
		if err := json.Unmarshal(v, &s); err == nil && got.text(k) != s {
			t.Errorf("%q: %q is %q, want %q", line, k, got.text(k), s)
		}
		if got.has(k) == (string(v) == "null") {
			t.Errorf("%q: has %q: %v", line, k, got.has(k))
		}
		var list []map[string]json.RawMessage
		if err := json.Unmarshal(v, &list); err != nil || slices.ContainsFunc(list, func(m map[string]json.RawMessage) bool { return m == nil }) {
			continue
		}
		blocks, err := got.blocks(k)
		if err != nil || len(blocks) != len(list) {
			t.Errorf("%q: %q is %d blocks, want %d (%v)", line, k, len(blocks), len(list), err)
			continue
		}
		for i, b := range blocks {
			if !maps.EqualFunc(b, list[i], func(x, y json.RawMessage) bool { return bytes.Equal(x, y) }) {
				t.Errorf("%q: block %d of %q is %q, want %q", line, i, k, b, list[i])
			}
		}
	}
}

func TestObject(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`{}`, `{ }`, `[]`, `null`, `"x"`, `1`, `{`, `{} {}`, `{"a":1,}`, "{\"a\":\"\xff\"}", "{\"a\":\"\x01\"}",
		`{"a":1,"b":-2.5e+7,"c":true,"d":false,"e":null,"f":"","g":[],"h":{}}`,
		" { \"a\" : [ 1 , { \"b\" : 2 } ] ,\t\"c\" :\r\n \"d\" } ",
		`{"a\"b":"\\","\\":"\\\"","\u0061":"x\\\\","a":"last","":"\ud83e\udd80 \ud83e"}`,
		`{"a":"]},{[","b":[{"c":"\"]"},{},{"d":[[],[{}]]}],"e":[{"f":1},2],"g":[null],"h":[{"x":1},null]}`,
		strings.Repeat(`{"a":[`, 4000) + strings.Repeat(`]}`, 4000),
	} {
		checkObject(t, []byte(strings.Trim(line, " ")))
	}
}
