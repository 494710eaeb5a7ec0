package chats

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"crabmem/crmem/vfs"
)

func stateOf(texts ...string) State {
	s := Begin("api:ann")
	for i, text := range texts {
		s = s.Add([]string{"user", "assistant"}[i%2], text)
	}
	return s
}

func markOf(session, request string, texts ...string) Mark {
	n := len(texts) - 1
	return Mark{Session: session, Owner: "api:ann", Agent: "crab", Request: request, Asked: stateOf(texts[:n]...), Seen: stateOf(texts...)}
}

// TestTake finds the session of a conversation, once, and only if no other session had it.
func TestTake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chats.jsonl")
	open := func() *Table {
		t.Helper()
		table, err := Open(vfs.OS{}, path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := table.Close(); err != nil {
				t.Error(err)
			}
		})
		return table
	}
	table := open()
	none := State{}
	taken := func(what string, want string, seen, chat State, agent string) {
		t.Helper()
		m, ok := table.Take(seen, chat, agent)
		if ok != (want != "") || m.Session != want {
			t.Errorf("%s: %q, want %q", what, m.Session, want)
		}
	}
	table.Put(markOf("s1", "r1", "hi", "Hello!"))
	taken("another chat", "", stateOf("hi", "Hello!"), stateOf(), "crab")
	taken("another agent", "", stateOf("hi", "Hello!"), none, "other")
	taken("another owner", "", Begin("api:bob").Add("user", "hi").Add("assistant", "Hello!"), none, "crab")
	taken("a part", "", stateOf("hi"), none, "crab")
	taken("space", "s1", stateOf(" hi\n", "Hello! "), none, "crab")
	taken("twice", "", stateOf("hi", "Hello!"), none, "crab")
	table.Put(markOf("s1", "r2", "hi", "Hello!", "more", "done"))
	table.Put(markOf("s2", "r3", "hi", "Hello!"))
	taken("two sessions had it", "", stateOf("hi", "Hello!"), none, "crab")
	other := markOf("s3", "r4", "hi", "Hello!")
	other.Agent = "other"
	table.Put(other)
	table = open() // a restart
	taken("two sessions had it before the restart", "", stateOf("hi", "Hello!"), none, "crab")
	if _, ok := table.TakeSession("s1", func(m *Mark) bool { return m.Seen == stateOf("hi", "Hello!") }); ok {
		t.Error("an earlier state of a session")
	}
	if m, ok := table.TakeSession("s1", func(m *Mark) bool { return m.Request == "r2" }); !ok || m.Session != "s1" {
		t.Errorf("the session: %+v", m)
	}
	taken("the session is taken", "", stateOf("hi", "Hello!", "more", "done"), none, "crab")
}

// TestAsked finds requests that may be repeated, before and after their answers.
func TestAsked(t *testing.T) {
	table, err := Open(vfs.OS{}, filepath.Join(t.TempDir(), "chats.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	m := markOf("s1", "r1", "hi", "Hello!")
	table.Ask(m)
	if _, ok := table.Asked("api:ann", "r1"); ok {
		t.Error("a request that its client cannot repeat")
	}
	m.Once = true
	table.Ask(m)
	if got, ok := table.Asked("api:ann", "r1"); !ok || got != m {
		t.Errorf("%+v, %v", got, ok)
	}
	if _, ok := table.Asked("api:bob", "r1"); ok {
		t.Error("a request of another owner")
	}
}

// TestLimit forgets the oldest marks. A state remains that of several sessions while one
// of their marks is known.
func TestLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chats.jsonl")
	table, err := Open(vfs.OS{}, path)
	if err != nil {
		t.Fatal(err)
	}
	table.Put(markOf("old", "r", "hi", "Hello!"))
	for i := range maxMarks - 1 {
		table.Put(markOf(fmt.Sprint(i), "r", "hi", fmt.Sprint(i)))
	}
	table.Put(markOf("young", "r", "hi", "Hello!")) // forgets old
	if _, ok := table.Take(stateOf("hi", "Hello!"), State{}, "crab"); ok {
		t.Error("the state of two sessions continues one of them")
	}
	if len(table.marks) != maxMarks || len(table.groups) != maxMarks || len(table.newest) != maxMarks {
		t.Errorf("%d marks, %d states, %d sessions", len(table.marks), len(table.groups), len(table.newest))
	}
	for i := range maxMarks + 10 {
		table.Put(markOf("s", fmt.Sprint("r", i), "ho", fmt.Sprint(i)))
	}
	if len(table.marks) != maxMarks || len(table.groups) != maxMarks || len(table.newest) != 1 {
		t.Errorf("%d marks, %d states, %d sessions", len(table.marks), len(table.groups), len(table.newest))
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	if table, err = Open(vfs.OS{}, path); err != nil || len(table.marks) != maxMarks || table.file.Lines() > 2*maxMarks {
		t.Errorf("%d marks in %d lines, %v", len(table.marks), table.file.Lines(), err)
	}
}

// TestUnreadable opens a table whose file is not readable: it works without the file.
func TestUnreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chats.jsonl")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	table, err := Open(vfs.OS{}, path)
	if err == nil {
		t.Error("no error for a directory")
	}
	table.Put(markOf("s1", "r1", "hi", "Hello!"))
	if _, ok := table.Take(stateOf("hi", "Hello!"), State{}, "crab"); !ok {
		t.Error("no session")
	}
	if err := table.Close(); err == nil {
		t.Error("no error for a write")
	}
}
