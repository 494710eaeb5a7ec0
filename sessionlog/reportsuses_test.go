package sessionlog_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog"
	"crabmem/sessionlog/search"
)

// mainFile is the session file that the reports change.
const mainFile = "/s/crab_user_1_a-port.jsonl"

// ticking returns a clock that advances by a second with each call.
func ticking() func() time.Time {
	now := noon
	return func() time.Time { now = now.Add(time.Second); return now }
}

// scene returns a machine with a folder of sessions: one with titles, tool
// calls, summaries, and an unknown record, one of another sender, one imported,
// and one in the trash.
func scene(t *testing.T) *faultfs.Mem {
	t.Helper()
	m := faultfs.NewMem()
	m.Now = ticking()
	d := open(m, nil)
	l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
	noErr(t, err)
	call := sessionlog.Message{Role: "assistant", ReasoningContent: "look", ToolCalls: []sessionlog.ToolCall{
		{ID: "c1", Function: sessionlog.Function{Name: "grep", Arguments: `{"word":"port"}`}}, {ID: "c2", Function: sessionlog.Function{Name: "list"}}}}
	result := sessionlog.Message{Role: "tool", ToolCallID: "c1", Content: "port = 6390"}
	noErr(t, l.Append(user("which port has the redis of staging?")))
	noErr(t, l.Append(call, result))
	noErr(t, l.Append(answer("it is 6390")))
	noErr(t, l.SetTitle("a port"))
	noErr(t, l.Compact("They found the port of redis."))
	noErr(t, l.Append(user("and \"café\" of\tproduction?\n")))
	noErr(t, l.AddUptime(7))
	noErr(t, l.Append(call, sessionlog.Message{Role: "tool", ToolCallID: "c2", Content: "two files"}, result))
	noErr(t, l.Append(answer("6391, I think"), sessionlog.Message{Role: "developer", Content: "be brief"}))
	noErr(t, l.Close())
	m.WriteFile(mainFile, []byte(strings.Replace(text(t, m, mainFile), `{"compact"`, `{"note":[-1.5e+3,true,null,"\ud83d\ude00"]}`+"\n"+`{"compact"`, 1)), 0o600)
	l, err = d.Open("crab_user_1")
	noErr(t, err)
	noErr(t, l.Append(user("thanks, that port works")))
	noErr(t, l.Close())
	for _, meta := range []sessionlog.Meta{{Agent: "crab", CreatedBy: "tg:1"}, {Agent: "crab", CreatedBy: "user", Title: "gone"}} {
		l, err = d.Create(meta)
		noErr(t, err)
		noErr(t, l.Append(user("what is a whole port?"), answer("port wine, in a cask")))
		noErr(t, l.Close())
	}
	noErr(t, d.Delete("crab_user_2"))
	_, _, err = d.Import(importedMeta("old"), importedItems(3))
	noErr(t, err)
	noErr(t, d.Close())
	return m
}

func importedItems(n int) []sessionlog.Item {
	list := []sessionlog.Item{{Message: user("first port")}, {Marker: true, Summary: "a port"}, {Message: answer("second")}, {Message: user("third port")}}
	return list[:n]
}

// open opens the folder of a machine and returns nil if it cannot. Warnings and
// the error go to w.
func open(m *faultfs.Mem, w *strings.Builder) *sessionlog.Dir {
	d, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: m, Now: m.Now, Command: "reports", MaxLine: 1 << 10,
		Warn: func(s string) {
			if w != nil {
				fmt.Fprintf(w, "warning: %s\n", s)
			}
		}})
	if w != nil {
		note(w, "open folder", err)
	}
	return d
}

// A use is a program's use of a folder. It prints the results. A use calls the
// change at the point where it applies.
type use struct {
	name string
	rare bool // is tried with a part of the changes
	do   func(m *faultfs.Mem, w *strings.Builder, change func())
}

var (
	writeUse  = use{"write", false, simple(useWrite)}
	importUse = use{"import", true, simple(useImport)}
)

var uses = []use{
	{"read", false, simple(useRead)},
	writeUse,
	{"compact and rename", false, simple(useRename)},
	{"repair", false, simple(useRepair)},
	{"list", true, simple(useList)},
	importUse,
	{"delete and restore", true, simple(useTrash)},
	{"create", true, simple(useCreate)},
	{"index", false, func(m *faultfs.Mem, w *strings.Builder, change func()) { useIndex(m, w, change, func() {}) }},
	{"refresh", false, func(m *faultfs.Mem, w *strings.Builder, change func()) { useIndex(m, w, func() {}, change) }},
	{"index of writes", true, simple(useIndexOfWrites)},
	{"change while open", true, useChanged},
}

func simple(f func(d *sessionlog.Dir, w *strings.Builder)) func(*faultfs.Mem, *strings.Builder, func()) {
	return func(m *faultfs.Mem, w *strings.Builder, change func()) {
		change()
		if d := open(m, w); d != nil {
			f(d, w)
			note(w, "close", d.Close())
		}
	}
}

// note prints an error and reports whether err is nil.
func note(w *strings.Builder, what string, err error) bool {
	if err != nil {
		fmt.Fprintf(w, "%s: error: %s\n", what, strings.ReplaceAll(err.Error(), "\n", "\n\t"))
	}
	return err == nil
}

func useRead(d *sessionlog.Dir, w *strings.Builder) {
	s, err := d.Read("crab_user_1")
	if !note(w, "read", err) {
		return
	}
	fmt.Fprintf(w, "%s %s %d\n", s.ID, s.File, s.Size)
	i, err := s.Info()
	fmt.Fprintf(w, "%s\n", infoText(i, err))
	for _, read := range []func() (*sessionlog.Context, error){s.Context, s.LenientContext} {
		c, err := read()
		if note(w, "context", err) {
			fmt.Fprintf(w, "context: %s\n", contextText(c))
		}
	}
	c, err := s.Check()
	if note(w, "check", err) {
		fmt.Fprintf(w, "check: %+v\n", *c)
	}
	all, err := s.Compactions()
	note(w, "compactions", err)
	for _, c := range all {
		var b strings.Builder
		note(w, "expand", s.Expand(c, &b))
		fmt.Fprintf(w, "compaction: %+v %08x\n", c, sum(b.String()))
	}
	at, ok, err := s.LastMarker()
	note(w, "last marker", err)
	from, err := s.LastLines(3)
	note(w, "last lines", err)
	fmt.Fprintf(w, "last: %d %v %d\n", at, ok, from)
	for l, err := range s.Lines(from) {
		if !note(w, "line", err) {
			break
		}
		msg := ""
		if l.Err != nil {
			msg = l.Err.Error()
		}
		fmt.Fprintf(w, "line: %d %d %d %s %v %d %v %v %+v %+v %q %s\n", l.Number, l.Offset, l.Size, l.Kind, l.Glued, l.Pieces, l.Tail, l.Torn, l.Message, l.Meta, l.Summary, msg)
	}
	moved, err := s.Moved()
	note(w, "moved", err)
	fmt.Fprintf(w, "moved: %v\n", moved)
	note(w, "close", s.Close())
}

func infoText(i sessionlog.Info, err error) string {
	return fmt.Sprint(i.ID, " ", i.File, " ", i.Meta, i.Messages, i.Partial, i.Damaged, i.Torn, i.Size, i.Modified.IsZero(), i.Err, err)
}

func contextText(c *sessionlog.Context) string {
	return fmt.Sprintf("%+v %+v %d %v %+v %d %d", c.Meta, c.Messages, c.Start, c.Compacted, c.Damage, c.Damaged, c.Torn)
}

func useWrite(d *sessionlog.Dir, w *strings.Builder) {
	l, err := d.Open("crab_user_1")
	if !note(w, "open", err) {
		return
	}
	fmt.Fprintf(w, "%s %s %+v\n", l.ID(), l.Path(), l.Meta())
	note(w, "append", l.Append(user("new")))
	note(w, "append", l.Append(sessionlog.Message{Role: "tool", Content: "unsynced"}))
	c, err := l.Context()
	if note(w, "context", err) {
		fmt.Fprintf(w, "context: %s\n", contextText(c))
	}
	note(w, "close", l.Close())
}

func useRename(d *sessionlog.Dir, w *strings.Builder) {
	l, err := d.Open("crab_user_1")
	if !note(w, "open", err) {
		return
	}
	note(w, "compact", l.Compact("short"))
	note(w, "uptime", l.AddUptime(1))
	note(w, "sync", l.Sync())
	note(w, "title", l.SetTitle("New title"))
	fmt.Fprintf(w, "%s %+v\n", l.Path(), l.Meta())
	note(w, "close", l.Close())
}

func useRepair(d *sessionlog.Dir, w *strings.Builder) {
	did, err := d.Repair("crab_user_1")
	note(w, "repair", err)
	fmt.Fprintf(w, "repair: %+v\n", did)
}

func useList(d *sessionlog.Dir, w *strings.Builder) {
	for _, list := range []func() ([]sessionlog.Info, error){d.List, d.Trashed} {
		infos, err := list()
		note(w, "list", err)
		slices.SortFunc(infos, sessionlog.Info.Compare)
		for _, i := range infos {
			fmt.Fprintf(w, "list: %s\n", infoText(i, nil))
		}
	}
	id, err := d.Latest("crab", "user")
	note(w, "latest", err)
	kept, err := d.Kept("")
	note(w, "kept", err)
	fmt.Fprintf(w, "latest: %s, kept: %v\n", id, kept)
}

func useImport(d *sessionlog.Dir, w *strings.Builder) {
	im, err := d.NewImporter(false)
	if !note(w, "importer", err) {
		return
	}
	other := importedMeta("other")
	other.Source = "codex:2"
	for _, i := range []struct {
		meta  sessionlog.Meta
		items int
	}{{importedMeta("old"), 3}, {importedMeta("old"), 2}, {importedMeta("newer"), 4}, {other, 1}} {
		r, err := im.Import(i.meta, importedItems(i.items))
		note(w, "import", err)
		fmt.Fprintf(w, "import: %s %d\n", r.ID, outcomeNumber(r))
	}
	note(w, "close", im.Close())
}

// outcomeNumber returns the number of a result in the golden files.
func outcomeNumber(r sessionlog.ImportResult) int {
	switch {
	case r.Created:
		return 1
	case r.Updated:
		return 2
	case r.Older:
		return 3
	}
	return 0
}

func useTrash(d *sessionlog.Dir, w *strings.Builder) {
	note(w, "delete", d.Delete("crab_user_1"))
	note(w, "restore", d.Restore("crab_user_1"))
	note(w, "restore", d.Restore("crab_user_2"))
	note(w, "delete", d.Delete("codex_user_1"))
	note(w, "restore", d.Restore("codex_user_1"))
}

func useCreate(d *sessionlog.Dir, w *strings.Builder) {
	l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user", Title: "fresh"})
	if !note(w, "create", err) {
		return
	}
	fmt.Fprintf(w, "%s %+v\n", l.Path(), l.Meta())
	note(w, "append", l.Append(answer("x")))
	note(w, "close", l.Close())
}

// useIndex builds an index and refreshes it after a change, with and without
// the texts of tools.
func useIndex(m *faultfs.Mem, w *strings.Builder, before, between func()) {
	before()
	for i, o := range []search.IndexOptions{{Analyzer: analysis.Standard}, {Tools: true}} {
		d := open(m, w)
		if d == nil {
			continue
		}
		x, err := search.NewIndex(d, &o)
		if !note(w, "index", err) {
			continue
		}
		if i == 0 {
			between()
		}
		note(w, "refresh", x.Refresh())
		printIndex(x, w)
		note(w, "close", x.Close())
		note(w, "close", d.Close())
	}
}

func printIndex(x *search.Index, w *strings.Builder) {
	fmt.Fprintf(w, "%d documents\n", x.Len())
	for _, name := range slices.Sorted(maps.Keys(x.Unread())) {
		fmt.Fprintf(w, "unread: %s: %v\n", name, x.Unread()[name])
	}
	for _, q := range []search.Query{
		{Text: "redis port of staging", Window: 3}, {Text: "prot", Roles: []string{"user", "developer", "session"}},
		{Text: "port grep", Agent: "crab", Window: -1}, {Text: "prot", Sender: "user", Since: noon},
		{Text: "a port", Bare: true, Limit: 2, Until: noon.Add(time.Hour)},
	} {
		r, err := x.Search(context.Background(), q)
		if !note(w, "search", err) {
			continue
		}
		fmt.Fprintf(w, "search %q: %d of %d %v\n", q.Text, r.Total, r.Searched, r.Corrections)
		for _, h := range r.Hits {
			fmt.Fprintf(w, "\t%s %s %s:%d %s %.6f %q %d %08x\n", h.ID, h.File, h.Agent+h.CreatedBy+h.Title, h.Line, h.Role, h.Score, h.Snippet, len(h.Window), sum(fmt.Sprint(h.Window)))
		}
	}
}

// useIndexOfWrites keeps an index current with writes, and compares it with one
// that is built of the files.
func useIndexOfWrites(d *sessionlog.Dir, w *strings.Builder) {
	o := &search.IndexOptions{Analyzer: analysis.Standard}
	x, err := search.NewIndex(d, o)
	if !note(w, "index", err) {
		return
	}
	useWrite(d, w)
	useRename(d, w)
	useTrash(d, w)
	printIndex(x, w)
	note(w, "close", x.Close())
}

// useChanged changes the folder while a session is open and an index is built.
func useChanged(m *faultfs.Mem, w *strings.Builder, change func()) {
	d := open(m, w)
	if d == nil {
		return
	}
	x, err := search.NewIndex(d, nil)
	note(w, "index", err)
	l, err := d.Open("crab_user_1")
	if !note(w, "open", err) {
		return
	}
	note(w, "append", l.Append(user("before")))
	change()
	note(w, "append", l.Append(user("after"), answer("yes")))
	note(w, "append", l.Append(answer("more")))
	note(w, "title", l.SetTitle("New title"))
	note(w, "close", l.Close())
	if x != nil {
		printIndex(x, w)
	}
	note(w, "close", d.Close())
}

// outcome formats the result of a use: its output, the session, and the files.
func outcome(base *faultfs.Mem, c change, u use, hook func(faultfs.Call) error) string {
	m := base.Kill()
	if c.crash {
		m = base.Crash()
	}
	m.Now = ticking()
	var w strings.Builder
	change := func() { c.do(m) }
	if hook != nil {
		c.do(m)
		change = func() {}
		m.Hook = hook
	}
	u.do(m, &w, change)
	m.Hook = nil
	s, err := open(m, nil).Read("crab_user_1")
	if note(&w, "after", err) {
		c, err := s.LenientContext()
		if note(&w, "after", err) {
			fmt.Fprintf(&w, "after: %s %d %+v %d\n", s.File, len(c.Messages), c.Meta, c.Damaged)
		}
	}
	w.WriteString("files:")
	printFiles(m, "/", &w)
	w.WriteString("\n")
	return unstable.ReplaceAllString(w.String(), "*")
}

// printFiles prints the names of the files under a directory, with a checksum of
// their contents.
func printFiles(m *faultfs.Mem, dir string, w *strings.Builder) {
	list, err := m.ReadDir(dir)
	if err != nil {
		fmt.Fprintf(w, " %s:%v", dir, err)
	}
	for _, e := range list {
		name := path.Join(dir, e.Name())
		if e.IsDir() {
			printFiles(m, name, w)
			continue
		}
		b, err := vfs.ReadFile(m, name, 1<<20)
		if h := vfs.ParseLockHolder(string(b)); strings.HasSuffix(name, ".lock") {
			fmt.Fprintf(w, " %s:%s,%d,%v,%v,%v", name, h.Boot, h.Clean, h.Torn, h.Inodes, err)
		} else {
			fmt.Fprintf(w, " %s:%d,%08x,%v", name, len(b), sum(string(b)), err)
		}
	}
}

func sum(s string) uint32 { return crc32.ChecksumIEEE([]byte(s)) }
