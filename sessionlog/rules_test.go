package sessionlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/sessionlog/record"
)

// TestRulesOfRecovery compares cut and maybeUnsynced with the rules, for every state
// of a lock file.
func TestRulesOfRecovery(t *testing.T) {
	for _, boot := range []string{"this", ""} {
		m, d, _ := memDir(t, Options{})
		d.fs = bootFS{m, boot}
		for _, before := range []string{"this", "other", ""} {
			for _, torn := range []bool{false, true} {
				for _, clean := range []int64{-1, 10} {
					for _, ours := range []bool{false, true} {
						h := vfs.LockHolder{Boot: before, Torn: torn, Clean: clean}
						ended := clean == 10
						cut := torn
						if ours && !ended && (boot == "" || before != boot) {
							cut = true
						}
						unsynced := !ended && (before == "this" && boot != "" || before != "" && boot == "" || before == "" && torn)
						if got := d.cut(h, ours, 10); got != cut {
							t.Errorf("boot %q, ours %t, %+v: cut is %t", boot, ours, h, got)
						}
						if got := d.maybeUnsynced(h, 10); got != unsynced {
							t.Errorf("boot %q, %+v: maybeUnsynced is %t", boot, h, got)
						}
					}
				}
			}
		}
		d.fs = m
	}
}

type bootFS struct {
	vfs.FS
	boot string
}

func (f bootFS) BootID() string { return f.boot }

func TestEndsTurn(t *testing.T) {
	calls := make([]ToolCall, 2)
	for _, c := range []struct {
		m    Message
		want bool
	}{
		{Message{Role: record.RoleUser}, true}, {Message{Role: record.RoleUser, ToolCalls: calls}, true}, {Message{Role: record.RoleAssistant}, true},
		{Message{Role: record.RoleAssistant, ToolCalls: calls}, false}, {Message{Role: record.RoleAssistant, ToolCalls: calls[:1]}, false},
		{Message{Role: record.RoleTool}, false}, {Message{Role: "judge"}, false}, {Message{Role: record.RoleSystem}, false},
	} {
		if got := endsTurn(c.m); got != c.want {
			t.Errorf("%s with %d calls: %t", c.m.Role, len(c.m.ToolCalls), got)
		}
	}
}

// TestCheckMessage checks messages with one invalid text.
func TestCheckMessage(t *testing.T) {
	const bad = "a\xff"
	for i, change := range []func(m *Message){
		func(m *Message) { m.Role = bad }, func(m *Message) { m.Content = bad }, func(m *Message) { m.ReasoningContent = bad }, func(m *Message) { m.ToolCallID = bad },
		func(m *Message) { m.ToolCalls[1].ID = bad }, func(m *Message) { m.ToolCalls[1].Type = bad },
		func(m *Message) { m.ToolCalls[1].Function.Name = bad }, func(m *Message) { m.ToolCalls[1].Function.Arguments = bad },
		func(m *Message) { m.Role = "" }, func(*Message) {},
	} {
		m := Message{Role: "assistant", Content: "é", ReasoningContent: "é", ToolCallID: "é", ToolCalls: make([]ToolCall, 2)}
		m.ToolCalls[0] = ToolCall{ID: "é", Type: "é", Function: Function{Name: "é", Arguments: "é"}}
		change(&m)
		want := ErrInvalid.Error() + ": tool call 2 is not UTF-8"
		switch {
		case i < 4:
			want = fmt.Sprintf("%v: message of role %q is not UTF-8", ErrInvalid, m.Role)
		case m.Role == "":
			want = ErrInvalid.Error() + ": message has no role"
		case i == 9:
			want = "<nil>"
		}
		if got := fmt.Sprint(checkMessage(&m)); got != want {
			t.Errorf("message %d: %s, want %s", i, got, want)
		}
	}
}

// shortFS writes fewer bytes than it should to a file, without an error.
type shortFS struct {
	vfs.FS
	lacking int
}

type shortFile struct {
	vfs.File
	fs *shortFS
}

func (s *shortFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := s.FS.OpenFile(name, flag, perm)
	if err != nil || !strings.HasSuffix(name, nameExt) {
		return f, err
	}
	return shortFile{f, s}, nil
}

func (f shortFile) Write(b []byte) (int, error) { return f.File.Write(b[:len(b)-f.fs.lacking]) }

// TestShortWrites writes to a file that takes fewer bytes without an error.
func TestShortWrites(t *testing.T) {
	m, _, _ := memDir(t, Options{})
	short := &shortFS{FS: m}
	d, err := OpenDir("/s", &Options{FS: short})
	must(t, err)
	l, err := d.Create(Meta{Agent: "crab", CreatedBy: "user"})
	must(t, err)
	must(t, l.Append(Message{Role: "user", Content: "one"}))
	short.lacking = 1
	if err := l.Append(Message{Role: "user", Content: "two"}); !errors.Is(err, ErrUnknown) || !errors.Is(err, io.ErrShortWrite) {
		t.Error(err)
	}
	must(t, l.Close())
	if _, err := d.Open("crab_user_1"); !errors.Is(err, ErrUnknown) || !errors.Is(err, io.ErrShortWrite) { // it adds the line end
		t.Error(err)
	}
	short.lacking = 0
	l, err = d.Open("crab_user_1")
	must(t, err)
	c, err := l.Context()
	must(t, err)
	if len(c.Messages) != 2 || c.Messages[1].Content != "two" {
		t.Errorf("%+v", c.Messages)
	}
	must(t, d.Close())
}
