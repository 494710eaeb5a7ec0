package sessionlog_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog"
)

const displacedID = "crab_user_1"

// foreignSession is the content that another program writes over a session:
// valid, and longer than the session.
var foreignSession = metaLine + strings.Repeat(`{"role":"user","content":"of another program"}`+"\n", 30)

// displacements are changes of a file by another program. name is the name of
// the file after the change, if it has one.
var displacements = []struct {
	name string
	do   func(t *testing.T, m *faultfs.Mem, name string)
}{
	{"rm", func(t *testing.T, m *faultfs.Mem, name string) { noErr(t, m.Remove(name)) }},
	{"mv away", func(t *testing.T, m *faultfs.Mem, name string) { noErr(t, m.Rename(name, "/away")) }},
	{"cp over", func(t *testing.T, m *faultfs.Mem, name string) { m.WriteFile(name, []byte(foreignSession), 0o600) }},
	{"rename over", func(t *testing.T, m *faultfs.Mem, name string) { // of the same length
		m.WriteFile("/new", []byte(strings.ReplaceAll(text(t, m, name), "earlier", "foreign")), 0o600)
		noErr(t, m.Rename("/new", name))
	}},
	{"truncate", func(t *testing.T, m *faultfs.Mem, name string) {
		f, err := m.OpenFile(name, os.O_RDWR, 0)
		noErr(t, err)
		noErr(t, f.Truncate(int64(len(metaLine))))
		noErr(t, f.Close())
	}},
	{"chmod 000", func(_ *testing.T, m *faultfs.Mem, name string) { m.Chmod(name, 0) }},
	{"directory", func(t *testing.T, m *faultfs.Mem, name string) {
		noErr(t, m.Remove(name))
		noErr(t, m.Mkdir(name, 0o700))
	}},
	{"symlink", func(t *testing.T, m *faultfs.Mem, name string) {
		noErr(t, m.Rename(name, "/away"))
		m.Symlink("/away", name)
	}},
	{"fifo", func(t *testing.T, m *faultfs.Mem, name string) {
		noErr(t, m.Remove(name))
		m.Mkfifo(name)
	}},
}

// displacedSteps are the steps after the change.
var displacedSteps = []string{"append", "step", "title", "compaction", "sync", "close", "second process", "kill -9", "kill -9 before a write"}

// undetectable are the cells of FORMAT.md in which acknowledged lines are lost
// and the next open does not report it.
var undetectable = []string{
	"session, cp over, kill -9", "session, truncate, kill -9",
}

// displacedCell is one run: a session with acknowledged lines, whose session
// file or lock file another program changes.
type displacedCell struct {
	t       *testing.T
	name    string
	m       *faultfs.Mem
	l       *sessionlog.Log
	earlier []string // acknowledged before the change
	later   []string // acknowledged after it
	result  error    // of the step
}

// TestDisplaced changes a session's file and its lock file in every way while a
// writer has them open (S27 to S29). It prints the outcome of each cell.
func TestDisplaced(t *testing.T) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FILE\tCHANGE\tNEXT\tRESULT\tACKNOWLEDGED BEFORE\tACKNOWLEDGED AFTER\tNEXT OPEN")
	var silent []string
	for _, file := range []string{"session", "lock"} {
		for _, change := range displacements {
			for _, step := range displacedSteps {
				c := newDisplacedCell(t, file+", "+change.name+", "+step, step)
				name := "/s/" + displacedID + ".jsonl"
				if file == "lock" {
					name = "/s/.locks/" + displacedID + ".lock"
				}
				change.do(t, c.m, name)
				c.do(step)
				result, earlier, later, next := c.judge(step)
				if earlier == "LOST" && next == "silent" {
					silent = append(silent, c.name)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", file, change.name, step, result, earlier, later, next)
			}
		}
	}
	w.Flush()
	t.Logf("sessions whose files another program changed:\n%s", &table)
	want := slices.Clone(undetectable)
	slices.Sort(silent)
	slices.Sort(want)
	if !slices.Equal(silent, want) {
		t.Errorf("lost without a report: %q, want %q", silent, want)
	}
	doc, err := os.ReadFile("FORMAT.md")
	noErr(t, err)
	for _, name := range want {
		if !strings.Contains(string(doc), "- "+name) {
			t.Errorf("FORMAT.md does not list %q", name)
		}
	}
}

func newDisplacedCell(t *testing.T, name, step string) *displacedCell {
	t.Helper()
	m, d, _ := onMem(t, sessionlog.Options{Command: "test"})
	c := &displacedCell{t: t, name: name, m: m, l: begin(t, d), earlier: []string{"earlier user", "earlier answer", "earlier step"}}
	noErr(t, c.l.Append(user("earlier user")))
	noErr(t, c.l.Append(answer("earlier answer")))
	noErr(t, c.l.Append(stepMessage("earlier step")))
	if step == "kill -9 before a write" {
		noErr(t, c.l.Close())
		c.l = reopen(t, d, displacedID)
	}
	return c
}

// stepMessage is a message that no sync follows.
func stepMessage(text string) sessionlog.Message {
	return sessionlog.Message{Role: "assistant", Content: text, ToolCalls: []sessionlog.ToolCall{{ID: "a"}}}
}

func (c *displacedCell) do(step string) {
	switch step {
	case "append":
		c.ack("later", func() error { return c.l.Append(user("later")) })
	case "step":
		c.ack("later", func() error { return c.l.Append(stepMessage("later")) })
	case "title":
		c.ack("later", func() error { return c.l.SetTitle("later") })
	case "compaction":
		c.ack("later", func() error { return c.l.Compact("later") })
	case "sync":
		c.result = c.l.Sync()
	case "close":
		c.result = c.l.Close()
	case "second process":
		if l, err := dirOn(c.t, c.m, sessionlog.Options{}).Open(displacedID); err == nil {
			c.ack("of the second process", func() error { return l.Append(user("of the second process")) })
			c.ack("later", func() error { return c.l.Append(user("later")) })
			result := c.result
			c.ack("last", func() error { return l.Append(user("last")) })
			c.result = errors.Join(result, c.result)
			return
		}
		c.ack("later", func() error { return c.l.Append(user("later")) })
	default:
		c.m = c.m.Kill()
	}
}

// ack notes text as acknowledged if write succeeds.
func (c *displacedCell) ack(text string, write func() error) {
	if c.result = write(); c.result == nil {
		c.later = append(c.later, text)
	}
}

// judge checks the rules of every cell and describes it.
func (c *displacedCell) judge(step string) (result, earlier, later, next string) {
	t, killed := c.t, strings.HasPrefix(step, "kill")
	result = "done"
	displaced := errors.Is(c.result, sessionlog.ErrDisplaced)
	switch {
	case killed:
		result = "killed"
	case displaced:
		result = "unknown, kept"
		if !errors.Is(c.result, sessionlog.ErrUnknown) {
			t.Errorf("%s: %v, want ErrUnknown", c.name, c.result)
		}
		c.checkKept()
		if err := c.l.Append(user("late")); !errors.Is(err, sessionlog.ErrStopped) && !errors.Is(err, sessionlog.ErrClosed) {
			t.Errorf("%s: a write after it: %v", c.name, err)
		}
	case c.result != nil:
		t.Errorf("%s: %v", c.name, c.result)
	case c.mustDetect(step):
		t.Errorf("%s: not detected", c.name)
	}
	earlier, later = c.find(c.earlier), c.find(c.later)
	if earlier == "LOST" && !killed {
		t.Errorf("%s: acknowledged before the change, and lost: %v", c.name, c.result)
	}
	if later == "LOST" {
		t.Errorf("%s: acknowledged after the change, and lost: %q", c.name, c.later)
	}
	return result, earlier, later, c.next(displaced)
}

// mustDetect reports whether a step must find the change: all but a change of
// permissions or of the lock's text, and the lock in a write without a sync.
func (c *displacedCell) mustDetect(step string) bool {
	session := strings.HasPrefix(c.name, "session, ")
	inPlace := strings.Contains(c.name, "cp over") || strings.Contains(c.name, "truncate")
	return !strings.Contains(c.name, "chmod") && (session || !inPlace && step != "step")
}

// checkKept checks that the error names copies that exist, and that they are
// neither listed as sessions nor removed.
func (c *displacedCell) checkKept() {
	var e *sessionlog.DisplacedError
	if !errors.As(c.result, &e) || e.Copy == "" || e.CopyErr != nil || !strings.Contains(c.result.Error(), e.Copy) {
		c.t.Errorf("%s: no copy is named: %v", c.name, c.result)
		return
	}
	kept, err := dirOn(c.t, c.m, sessionlog.Options{}).Kept("")
	noErr(c.t, err)
	for _, name := range []string{e.Copy, e.Lines} {
		if name != "" && !slices.Contains(kept, sessionlog.Kept{ID: displacedID, Path: name}) {
			c.t.Errorf("%s: %s is not among the kept copies %q", c.name, name, kept)
		}
	}
}

// find returns the files that contain the texts, or LOST if a text is in no
// file.
func (c *displacedCell) find(texts []string) string {
	if len(texts) == 0 {
		return "-"
	}
	places := []string{}
	for _, text := range texts {
		place := "LOST"
		for name, content := range c.files("/") {
			if !strings.Contains(content, text) {
				continue
			}
			at := "session"
			if dir := path.Base(path.Dir(name)); dir != "s" {
				at = strings.TrimPrefix(path.Join(dir, path.Base(name)), "/")
				if dir == ".kept" {
					at = "kept"
				}
			}
			if place == "LOST" || at == "session" || place != "session" && at == "kept" {
				place = at
			}
		}
		if place == "LOST" {
			return place
		}
		if !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	return strings.Join(places, ", ")
}

// files returns the contents of all regular files. It resets their modes.
func (c *displacedCell) files(dir string) map[string]string {
	all := map[string]string{}
	list, err := c.m.ReadDir(dir)
	noErr(c.t, err)
	for _, e := range list {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir():
			for n, content := range c.files(name) {
				all[n] = content
			}
		case e.Type() == fs.FileMode(0):
			fi, err := c.m.Lstat(name)
			noErr(c.t, err)
			c.m.Chmod(name, 0o600)
			all[name] = text(c.t, c.m, name)
			c.m.Chmod(name, fi.Mode().Perm())
		}
	}
	return all
}

// next opens the session in another process after this one died, and describes
// the reports of that process.
func (c *displacedCell) next(displaced bool) string {
	var warnings []string
	m := c.m.Kill()
	d, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: m, Warn: func(s string) { warnings = append(warnings, s) }})
	noErr(c.t, err)
	l, err := d.Open(displacedID)
	said := strings.Join(warnings, "\n")
	if err != nil {
		said += err.Error()
	} else {
		noErr(c.t, l.Append(user("after a restart")))
		noErr(c.t, l.Close())
	}
	kept, kerr := d.Kept(displacedID)
	noErr(c.t, kerr)
	if len(kept) > 0 != displaced {
		c.t.Errorf("%s: kept copies %q", c.name, kept)
	}
	// An open that fails because of a file that is not a session's reports that.
	if err == nil || errors.Is(err, sessionlog.ErrNotFound) {
		for _, k := range kept {
			if !strings.Contains(said, k.Path) {
				c.t.Errorf("%s: the next open does not name %s: %s", c.name, k.Path, said)
			}
		}
	}
	switch {
	case err != nil && len(kept) > 0 && errors.Is(err, sessionlog.ErrNotFound):
		return "not found, names the copy"
	case errors.Is(err, sessionlog.ErrNotFound) && strings.Contains(said, "is unreadable"):
		return "not found, names a file without permission"
	case errors.Is(err, sessionlog.ErrNotFound) && strings.Contains(said, "lock file /"):
		return "not found, quotes the lock file"
	case errors.Is(err, vfs.ErrNotRegular):
		return "refused: not a regular file"
	case errors.Is(err, fs.ErrPermission):
		return "refused: permission"
	case err != nil:
		c.t.Errorf("%s: next open: %v", c.name, err)
		return err.Error()
	case len(kept) > 0:
		return "names the copy"
	case strings.Contains(said, "another program"):
		return "reports it"
	}
	return "silent"
}
