package foreign

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"crabmem/crmem/vfs/faultfs"

	"github.com/google/go-cmp/cmp"
)

// TestReadAfterMark reads each transcript under testdata in two parts, divided after each
// line. The parts have the items of the complete transcript, or the second one needs the
// first.
func TestReadAfterMark(t *testing.T) {
	t.Parallel()
	extended := make(map[string]int)
	for tool, files := range map[*Kind]int{claudeCode: 6, codex: 6, gemini: 3} {
		for _, file := range transcriptFiles(t, tool.Tool, files) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if data[len(data)-1] != '\n' {
				data = append(data, '\n')
			}
			all, err := tool.read(bytes.NewReader(data), Mark{})
			if err != nil {
				continue
			}
			for end := range len(data) {
				if data[end] != '\n' {
					continue
				}
				head, err := tool.read(bytes.NewReader(data[:end+1]), Mark{})
				if err != nil || head.Mark.Offset == 0 {
					continue
				}
				if head.Mark.Offset != int64(end+1) {
					t.Fatalf("%s: mark at %d, want %d", file, head.Mark.Offset, end+1)
				}
				tail, err := tool.read(bytes.NewReader(data[end+1:]), head.Mark)
				if errors.Is(err, ErrEarlier) {
					continue
				}
				if err != nil && !errors.Is(err, ErrNoMessages) {
					t.Fatal(err)
				}
				extended[tool.Tool]++
				if diff := cmp.Diff(all.Items, append(head.Items, tail.Items...)); diff != "" {
					t.Errorf("%s, divided at %d:\n%s", file, end+1, diff)
				}
				if tail.Mark != all.Mark && all.Mark.Offset > 0 && tail.Mark.Answer == all.Mark.Answer {
					t.Errorf("%s, divided at %d: %+v, want %+v", file, end+1, tail.Mark, all.Mark)
				}
			}
		}
	}
	t.Log(extended)
	if len(extended) != 3 || extended["claude-code"] < 8 || extended["codex"] < 10 || extended["gemini-cli"] < 2 {
		t.Errorf("parts: %v", extended)
	}
}

// TestReadFrom reads only the bytes after a mark, and refuses a file that did not only grow.
func TestReadFrom(t *testing.T) {
	t.Parallel()
	line := func(i int, text string) string {
		return fmt.Sprintf(`{"type":"user","uuid":"%d","sessionId":"s","timestamp":"2026-03-01T09:10:0%dZ","message":{"role":"user","content":%q}}`+"\n", i, i, text)
	}
	old := line(0, "first") + line(1, strings.Repeat("x", minMark)) + line(2, "last")
	m := faultfs.NewMem()
	write := func(text string) { m.WriteFile("/t.jsonl", []byte(text), 0o600) }
	write(old)
	all, err := (File{Path: "/t.jsonl", Kind: claudeCode}).Read(m)
	if err != nil || all.Mark.Offset != int64(len(old)) || all.Mark.Sum == "" {
		t.Fatalf("%+v, %v", all.Mark, err)
	}
	write(old + line(3, "more"))
	tail, err := ReadFrom(m, "/t.jsonl", all.Mark)
	if err != nil || len(tail.Items) != 1 || tail.Items[0].Message.Content != "more" || tail.Mark.Offset <= all.Mark.Offset || tail.Mark.Sum == all.Mark.Sum {
		t.Errorf("%+v, %v", tail, err)
	}
	if same, err := ReadFrom(m, "/t.jsonl", tail.Mark); err != nil || len(same.Items) != 0 || same.Mark != tail.Mark {
		t.Errorf("without more lines: %+v, %v", same, err)
	}
	for name, text := range map[string]string{
		"shorter":        old[:len(old)-10],
		"another end":    old[:len(old)-20] + strings.Repeat("y", 20) + line(3, "more"),
		"another start":  "{" + old[1:20] + "z" + old[21:] + line(3, "more"),
		"an older line":  old + strings.Replace(line(3, "more"), "09:10", "09:09", 1),
		"a new title":    old + `{"type":"custom-title","customTitle":"new"}` + "\n",
		"a new session":  old + strings.Replace(line(3, "more"), `"s"`, `"other"`, 1),
		"a summary":      old + `{"type":"user","sessionId":"s","isCompactSummary":true,"message":{"content":"x"}}` + "\n",
		"an empty file ": "",
	} {
		write(text)
		if tail, err := ReadFrom(m, "/t.jsonl", all.Mark); !errors.Is(err, ErrEarlier) {
			t.Errorf("%s: %d items, %v", name, len(tail.Items), err)
		}
	}
	for _, bad := range []Mark{{}, {Tool: "other", Offset: 5}, {Tool: "codex"}} {
		if _, err := ReadFrom(m, "/t.jsonl", bad); !errors.Is(err, ErrEarlier) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	write(old + `{"type":"user","uuid":"9","sessionId":"s","message":{"content":"torn"`)
	if tail, err := ReadFrom(m, "/t.jsonl", all.Mark); err != nil || len(tail.Items) != 0 || tail.Mark.Offset != 0 {
		t.Errorf("a torn line: %+v, %v", tail, err)
	}
	for _, small := range []string{line(0, "x"), strings.TrimSuffix(old, "\n")} {
		write(small)
		if tr, err := (File{Path: "/t.jsonl", Kind: claudeCode}).Read(m); err != nil && err != io.EOF || tr.Mark.Offset != 0 {
			t.Errorf("%d bytes: mark %+v, %v", len(small), tr.Mark, err)
		}
	}
}
