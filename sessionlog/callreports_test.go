package sessionlog_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/golden"
	"crabmem/sessionlog"
)

// reportUser makes random calls on a folder of sessions, as two processes of
// one machine.
type reportUser struct {
	t      *testing.T
	m      *faultfs.Mem
	random *rand.Rand
	w      strings.Builder
	dirs   [2]*sessionlog.Dir
	logs   []*sessionlog.Log

	left   int                     // calls of the file system before the fault; 0 = no fault
	fault  func(name string) error // of the call on a file
	inside bool                    // the fault itself makes calls
}

// TestReportsOfCalls makes random calls on folders, with faults, changes by other
// programs, and crashes, and compares the results, the warnings, the calls of
// the file system, and the files.
func TestReportsOfCalls(t *testing.T) {
	inOrder(t)
	base := scene(t)
	var r golden.Reports
	for seed := range uint64(350) {
		u := &reportUser{t: t, m: []*faultfs.Mem{faultfs.NewMem(), base}[seed%2].Kill(), random: rand.New(rand.NewPCG(seed, 11))}
		u.m.Now = ticking()
		u.m.Hook = u.hook
		for i := range u.dirs {
			u.open(i)
		}
		for range 15 + u.random.IntN(20) {
			u.step()
		}
		u.closeLogs()
		for i, d := range u.dirs {
			note(&u.w, fmt.Sprint("close folder ", i), d.Close())
		}
		u.m.Hook = nil
		printFiles(u.m, "/", &u.w)
		r.Add(fmt.Sprintf("seed %d", seed), unstable.ReplaceAllString(u.w.String(), "*"))
	}
	r.Compare(t, "testdata/reports/calls.txt.gz")
}

func (u *reportUser) open(i int) {
	u.left = 0
	o := &sessionlog.Options{FS: u.m, Now: u.m.Now, Command: fmt.Sprint("process ", i), MaxLine: []int64{0, 0, 200, 150}[u.random.IntN(4)],
		MaxOpen: u.random.IntN(3), Sync: sessionlog.SyncPolicy(u.random.IntN(5) / 2),
		Warn: func(line string) {
			if !u.inside {
				fmt.Fprintf(&u.w, "\twarning: %s\n", line)
			}
		}}
	if u.random.IntN(6) == 0 {
		o.Socket = "a socket"
	}
	d, err := sessionlog.OpenDir("/s", o)
	noErr(u.t, err)
	u.dirs[i] = d
}

// hook records a call of the file system, and fails the one that setFault chose.
func (u *reportUser) hook(c faultfs.Call) error {
	if u.inside {
		return nil
	}
	fmt.Fprintf(&u.w, "\t%s %s", c.Op, c.Name)
	if c.Op == "write" && !strings.HasSuffix(c.Name, ".lock") {
		fmt.Fprintf(&u.w, " %d", c.Size)
	}
	u.w.WriteString("\n")
	if u.left--; u.left != 0 {
		return nil
	}
	u.inside = true
	err := u.fault(c.Name)
	u.inside = false
	fmt.Fprintf(&u.w, "\t  fault: %v\n", err)
	return err
}

// setFault chooses one of the next calls of the file system, and its fault.
func (u *reportUser) setFault() {
	kind, n, file := u.random.IntN(13), u.random.IntN(60), u.file()
	u.left = 1 + u.random.IntN(20)
	u.fault = func(name string) error {
		if strings.HasSuffix(name, ".lock") {
			n = 0 // a part of its text would depend on the process ID
		}
		switch kind {
		case 0, 1:
			return syscall.EIO
		case 2, 3:
			return syscall.ENOSPC
		case 4:
			return &faultfs.Fault{Err: syscall.EIO, Done: true}
		case 5:
			return &faultfs.Fault{Err: syscall.ENOSPC, N: n}
		case 6:
			return &faultfs.Fault{Err: syscall.EIO, N: n}
		case 7:
			return syscall.ENOENT
		case 8:
			return syscall.EACCES
		case 9:
			_ = u.m.Remove(file)
		default:
			u.change(file, kind, n)
		}
		return nil
	}
}

// change changes a file as another program does.
func (u *reportUser) change(file string, kind, n int) {
	b, err := vfs.ReadFile(u.m, file, 1<<20)
	if err != nil {
		return
	}
	switch kind {
	case 10:
		_ = u.m.Remove(file)
	case 11:
		if strings.HasSuffix(file, ".lock") {
			n = 20 // the text before depends on the process ID
		}
		b = b[:len(b)-min(len(b), n)]
	default:
		b = append(b, []string{"text", "text\n", `{"role":"user","content":"by another"}` + "\n", `{"role":"user","content":"by another"}`, `{"meta":{"title":"other"}}` + "\n"}[n%5]...)
	}
	u.m.WriteFile(file, b, 0o600)
}

// file returns the path of a file that may exist.
func (u *reportUser) file() string {
	u.inside = true
	list, err := u.m.ReadDir("/s")
	u.inside = false
	if u.random.IntN(4) == 0 || err != nil || len(list) == 0 {
		return "/s/.locks/" + u.id() + ".lock"
	}
	return "/s/" + list[u.random.IntN(len(list))].Name()
}

var reportIDs = []string{"crab_user_1", "crab_user_2", "crab_user_3", "crab_tg-1_1", "crab-bot_user_1", "codex_user_1", "codex_user_2"}

// id is most often of a session.
func (u *reportUser) id() string {
	if u.random.IntN(4) > 0 {
		folder := []string{"/s", "/s", "/s", "/s/.trash"}[u.random.IntN(4)]
		u.inside = true
		list, err := u.m.ReadDir(folder)
		u.inside = false
		list = slices.DeleteFunc(list, func(e fs.DirEntry) bool { return !strings.HasSuffix(e.Name(), ".jsonl") })
		if err == nil && len(list) > 0 {
			parts := strings.SplitN(strings.TrimSuffix(list[u.random.IntN(len(list))].Name(), ".jsonl"), "_", 4)
			return strings.Join(parts[:min(3, len(parts))], "_")
		}
	}
	return reportIDs[u.random.IntN(len(reportIDs))]
}

// rare is 0, or rarely another number below n.
func (u *reportUser) rare(n int) int {
	if u.random.IntN(3) > 0 {
		return 0
	}
	return u.random.IntN(n)
}

// anyID is an id, or a file name, or an invalid id.
func (u *reportUser) anyID() string {
	switch u.random.IntN(12) {
	case 0:
		return u.id() + ".jsonl"
	case 1:
		return []string{"", "..", ".hidden", "a/b", "no_such_1", "crab_user", "crab_user_1_a-title.jsonl", "nul\x00", strings.Repeat("x", 251)}[u.random.IntN(9)]
	}
	return u.id()
}

func (u *reportUser) title() string {
	return []string{"", "A title", "other", "é ö/ü", strings.Repeat("long title ", 30), strings.Repeat("x", 4097), "nul\x00", "bad\xff"}[u.rare(8)]
}

func (u *reportUser) meta() sessionlog.Meta {
	return sessionlog.Meta{
		Agent:     []string{"crab", "crab", "crab", "Crab Bot", "", strings.Repeat("a", 300), "bad\xff"}[u.rare(7)],
		CreatedBy: []string{"user", "user", "tg:1", "", strings.Repeat("u", 4097)}[u.rare(5)],
		Title:     u.title(),
	}
}

func (u *reportUser) message() sessionlog.Message {
	text := []string{"", "text", "a longer text with \"quotes\"\n", strings.Repeat("x", 60+u.random.IntN(80)), "bad\xff"}[u.rare(5)]
	m := sessionlog.Message{Role: []string{"user", "assistant", "tool", "system", ""}[u.rare(5)], Content: text, Injected: u.random.IntN(10) == 0}
	switch u.random.IntN(8) {
	case 0:
		m.ToolCalls = []sessionlog.ToolCall{{ID: "c1", Function: sessionlog.Function{Name: "read", Arguments: "{}"}}}
	case 1:
		m.ToolCallID, m.ReasoningContent = "c1", "why"
	case 2:
		m.ToolCalls = []sessionlog.ToolCall{{ID: "c1"}, {ID: []string{"c2", "\xff"}[u.random.IntN(2)]}}
	}
	return m
}
