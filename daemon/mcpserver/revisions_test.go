package mcpserver

import (
	"context"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/daemon/mcpserver/mcptest"
	"crabmem/daemon/op"
)

// TestRevisions appends to a note, edits it, and restores it.
func TestRevisions(t *testing.T) {
	s := newTestServer(t, t.TempDir())
	c := connectStdio(t, s, nil)
	read := func() op.EntryPart {
		t.Helper()
		e, _ := must[op.EntryPart](t, c, "get_memory", dict{"name": "deploy"})
		return e
	}
	must[op.Written](t, c, "remember", dict{"name": "deploy", "content": "build\ntag", "aliases": []string{"ship"}, "tags": []string{"ci"}})
	first := *read().Content
	for _, step := range []struct {
		tool  string
		args  dict
		text  string // of the result
		after string // the end of the note; "" if it is removed
	}{
		{"append", dict{"name": "ship", "text": "push"}, "changed the note deploy, ", "build\ntag\npush"},
		{"append", dict{"name": "deploy", "text": "watch\n"}, "changed the note deploy, ", "build\ntag\npush\nwatch\n"},
		{"append", dict{"name": "deploy", "text": "end"}, "changed the note deploy, ", "push\nwatch\nend"},
		{"edit", dict{"name": "deploy", "old_text": "push\nwatch\n", "new_text": ""}, "changed the note deploy, ", "build\ntag\nend"},
		{"edit", dict{"name": "ship", "old_text": "build", "new_text": "build $1"}, "changed the note deploy, ", "build $1\ntag\nend"},
		{"forget", dict{"name": "deploy"}, "forgot deploy\nto undo this, call restore with the name", ""},
		{"restore", dict{"name": "deploy"}, "restored the note deploy, ", "build $1\ntag\nend"},
		{"forget", dict{"name": "deploy"}, "forgot deploy\n", ""},
		{"restore", dict{"name": "deploy"}, "restored the note deploy, ", "build $1\ntag\nend"},
		{"restore", dict{"name": "deploy", "change": 1}, "restored the note deploy, ", first},
	} {
		res, text := mcptest.Call(t, c, step.tool, step.args)
		if res.IsError || !strings.HasPrefix(text, step.text) {
			t.Fatalf("%s %v: %s", step.tool, step.args, text)
		}
		if step.after == "" {
			mcptest.Refused(t, c, "get_memory", dict{"name": "deploy"}, "^no entry")
		} else if got := *read().Content; !strings.HasSuffix(got, step.after) {
			t.Errorf("%s %v: the note is %q", step.tool, step.args, got)
		}
	}
	if got := read(); len(got.Aliases) != 1 || *got.Content != first {
		t.Errorf("the restored note is %+v, %q", got, *got.Content)
	}
}

// TestRefusedRevisions: a refused call states the reason, and writes nothing.
func TestRefusedRevisions(t *testing.T) {
	dir := t.TempDir()
	s := newTestServer(t, dir)
	c := connectStdio(t, s, nil)
	long := strings.Repeat("a", 200)
	fill(t, dir, crmem.Entry{Name: "n", Content: "aaa b b"}, crmem.Entry{Name: "front", Content: "---\ntype: goal\n---\n\nthe goal"}, crmem.Entry{Name: "long", Content: long}, crmem.Entry{Name: "talk", Kind: crmem.Archive, Content: "x y"})
	for _, call := range []struct {
		tool string
		args dict
		want string
	}{
		{"append", dict{"name": "n", "text": " \n"}, `the text to append to n is empty; nothing was written`},
		{"append", dict{"name": "n", "text": ""}, `^wrong arguments: text is empty`},
		{"append", dict{"name": "none", "text": "x"}, `no entry "none". Try: use list_memories`},
		{"append", dict{"name": "talk", "text": "x"}, `"talk" is an archive`},
		{"edit", dict{"name": "n", "old_text": "c", "new_text": "d"}, `^old_text does not occur in n; nothing was written. Try: read the note with get_memory, then send`},
		{"edit", dict{"name": "front", "old_text": "type: goal", "new_text": "type: fact"}, `^old_text does not occur in front; nothing was written. Try: the passage is metadata`},
		{"edit", dict{"name": "n", "old_text": "b", "new_text": "d"}, `^old_text occurs 2 times in n; nothing was written. Try: include more of the text`},
		{"edit", dict{"name": "n", "old_text": "aa", "new_text": "d"}, `^old_text occurs 2 times in n`}, // they overlap
		{"edit", dict{"name": "long", "old_text": "a", "new_text": "d"}, `^old_text occurs at least 100 times in long`},
		{"edit", dict{"name": "n", "old_text": "", "new_text": "d"}, `^wrong arguments: old_text is empty`},
		{"edit", dict{"name": "n", "old_text": "aaa b b", "new_text": ""}, `the text of n is empty; nothing was written`},
		{"edit", dict{"name": "talk", "old_text": "x", "new_text": "d"}, `"talk" is an archive`},
		{"restore", dict{"name": "n"}, `^n exists. Try: to restore an earlier version, pass its change from memory_history`},
		{"restore", dict{"name": "none"}, `no removed note has the name "none"`},
		{"restore", dict{"name": "n", "change": 99}, `the entry has no version 99. Try: call memory_history`},
		{"restore", dict{"name": "talk", "change": 3}, `"talk" is an archive`},
		{"remember", dict{"name": "n", "content": " "}, `the text of n is empty; nothing was written`},
	} {
		mcptest.Refused(t, c, call.tool, call.args, call.want)
	}
	if content(t, dir, "n") != "aaa b b" || content(t, dir, "long") != long || content(t, dir, "talk") != "x y" {
		t.Error("a refused call changed an entry")
	}
}

// TestConcurrentEdit: an edit applies to the note as another program left it.
func TestConcurrentEdit(t *testing.T) {
	dir := t.TempDir()
	addNote(t, dir, "n", "one two")
	raced := false
	s := newTestServer(t, dir, func(o *Options) {
		write := o.Write
		o.Write = func(ctx context.Context, f func(op.Memory) error) error {
			return write(ctx, func(m op.Memory) error { return f(racingMemory{m, &raced}) })
		}
	})
	c := connectStdio(t, s, nil)
	must[op.Written](t, c, "edit", dict{"name": "n", "old_text": "two", "new_text": "three"})
	if got := content(t, dir, "n"); !raced || got != "one three\nfour" {
		t.Errorf("raced %t: %q", raced, got)
	}
}

// racingMemory appends to a note before a call.
type racingMemory struct {
	op.Memory
	raced *bool
}

func (m racingMemory) Call(ctx context.Context, row *op.Row, in, out any, part func() error) error {
	if _, err := op.Append.Do(ctx, m.Memory, op.Addition{Name: "n", Text: "four"}); err != nil {
		return err
	}
	*m.raced = true
	return m.Memory.Call(ctx, row, in, out, part)
}
