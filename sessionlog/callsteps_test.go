package sessionlog_test

import (
	"fmt"
	"strings"

	"crabmem/sessionlog"
)

// step makes one random call.
func (u *reportUser) step() {
	if u.left = 0; u.random.IntN(3) == 0 {
		u.setFault()
	}
	i := u.random.IntN(7) / 6
	d := u.dirs[i]
	fmt.Fprintf(&u.w, "folder %d: ", i)
	if len(u.logs) > 0 && u.random.IntN(2) == 0 {
		u.useLog()
		return
	}
	switch u.random.IntN(16) {
	case 0, 1:
		u.w.WriteString("create\n")
		l, err := d.Create(u.meta())
		if note(&u.w, "create", err) {
			u.logs = append(u.logs, l)
			fmt.Fprintf(&u.w, "%s %s %+v\n", l.ID(), l.Path(), l.Meta())
		}
	case 2, 3:
		id := u.anyID()
		fmt.Fprintf(&u.w, "open %q\n", id)
		l, err := d.Open(id)
		if note(&u.w, "open", err) {
			u.logs = append(u.logs, l)
			fmt.Fprintf(&u.w, "%s %s %+v\n", l.ID(), l.Path(), l.Meta())
		}
	case 4, 5, 6, 7, 8:
		u.useLog()
	case 9:
		id := u.anyID()
		fmt.Fprintf(&u.w, "delete %q\n", id)
		note(&u.w, "delete", d.Delete(id))
	case 10:
		id := u.anyID()
		fmt.Fprintf(&u.w, "restore %q\n", id)
		note(&u.w, "restore", d.Restore(id))
	case 11:
		u.importSome(d)
	case 12:
		id := u.anyID()
		fmt.Fprintf(&u.w, "repair %q\n", id)
		did, err := d.Repair(id)
		note(&u.w, "repair", err)
		fmt.Fprintf(&u.w, "%+v\n", did)
	case 13:
		u.w.WriteString("list\n")
		useList(d, &u.w)
	case 14:
		u.read(d)
	default:
		u.restart(i)
	}
}

// useLog uses one of the open sessions.
func (u *reportUser) useLog() {
	if len(u.logs) == 0 {
		return
	}
	n := u.random.IntN(len(u.logs))
	l := u.logs[n]
	switch u.random.IntN(10) {
	case 0, 1, 2, 3:
		var ms []sessionlog.Message
		for range u.random.IntN(4) {
			ms = append(ms, u.message())
		}
		fmt.Fprintf(&u.w, "append %d messages to %s\n", len(ms), l.ID())
		note(&u.w, "append", l.Append(ms...))
	case 4:
		text := []string{"summary", "", strings.Repeat("s", 130+u.random.IntN(80)), "\xff"}[u.random.IntN(4)]
		fmt.Fprintf(&u.w, "compact %s\n", l.ID())
		note(&u.w, "compact", l.Compact(text))
	case 5:
		fmt.Fprintf(&u.w, "uptime %s\n", l.ID())
		note(&u.w, "uptime", l.AddUptime([]uint64{0, 1, 1<<64 - 1}[u.random.IntN(3)]))
	case 6:
		title := u.title()
		fmt.Fprintf(&u.w, "title %.20q of %s\n", title, l.ID())
		note(&u.w, "title", l.SetTitle(title))
	case 7:
		fmt.Fprintf(&u.w, "sync %s\n", l.ID())
		note(&u.w, "sync", l.Sync())
	case 8:
		fmt.Fprintf(&u.w, "context of %s\n", l.ID())
		c, err := l.Context()
		if note(&u.w, "context", err) {
			fmt.Fprintf(&u.w, "%s\n", contextText(c))
		}
	default:
		fmt.Fprintf(&u.w, "close %s\n", l.ID())
		note(&u.w, "close", l.Close())
		u.logs = append(u.logs[:n:n], u.logs[n+1:]...)
	}
	fmt.Fprintf(&u.w, "%s %+v\n", l.Path(), l.Meta())
}

// importSome imports transcripts of two sources by one importer.
func (u *reportUser) importSome(d *sessionlog.Dir) {
	dry := u.random.IntN(4) == 0
	fmt.Fprintf(&u.w, "import, dry %t\n", dry)
	im, err := d.NewImporter(dry)
	if !note(&u.w, "importer", err) {
		return
	}
	for range 1 + u.random.IntN(3) {
		m := importedMeta(u.title())
		m.Source = []string{"codex:1", "codex:2", ""}[u.rare(3)]
		items := importedItems(u.random.IntN(4))
		if u.random.IntN(3) == 0 {
			items = append(items, sessionlog.Item{Message: u.message()})
		}
		r, err := im.Import(m, items)
		note(&u.w, "import", err)
		fmt.Fprintf(&u.w, "%s %d\n", r.ID, outcomeNumber(r))
	}
	note(&u.w, "close", im.Close())
}

// read reads a session.
func (u *reportUser) read(d *sessionlog.Dir) {
	id := u.anyID()
	fmt.Fprintf(&u.w, "read %q\n", id)
	s, err := d.Read(id)
	if !note(&u.w, "read", err) {
		return
	}
	i, err := s.Info()
	fmt.Fprintf(&u.w, "%s %s %d %s\n", s.ID, s.File, s.Size, infoText(i, err))
	c, err := s.Check()
	note(&u.w, "check", err)
	fmt.Fprintf(&u.w, "check: %+v\n", c)
	for n := range 4 {
		from, err := s.LastLines(n)
		note(&u.w, "last lines", err)
		fmt.Fprintf(&u.w, "last %d: %d\n", n, from)
	}
	all, err := s.Compactions()
	note(&u.w, "compactions", err)
	for _, c := range all {
		c.From += int64(u.random.IntN(12)/10) * 1000
		var b strings.Builder
		note(&u.w, "expand", s.Expand(c, &b))
		fmt.Fprintf(&u.w, "%+v %q\n", c, b.String())
	}
	moved, err := s.Moved()
	note(&u.w, "moved", err)
	fmt.Fprintf(&u.w, "moved: %t\n", moved)
	note(&u.w, "refresh", s.Refresh())
	note(&u.w, "close", s.Close())
}

// restart ends the processes, with or without a crash, or one folder.
func (u *reportUser) restart(i int) {
	switch u.random.IntN(5) {
	case 0, 1:
		u.w.WriteString("kill\n")
		u.m = u.m.Kill()
	case 2:
		u.w.WriteString("power cut\n")
		u.m = u.m.Crash()
	case 3:
		u.w.WriteString("change\n")
		u.change(u.file(), 10+u.random.IntN(3), u.random.IntN(60))
		return
	default:
		u.closeLogs()
		u.w.WriteString("close folder\n")
		note(&u.w, "close folder", u.dirs[i].Close())
		u.open(i)
		return
	}
	u.m.Now, u.m.Hook, u.logs = ticking(), u.hook, nil
	for i := range u.dirs {
		u.open(i)
	}
}

// closeLogs closes the sessions, because a folder closes them in any order.
func (u *reportUser) closeLogs() {
	for _, l := range u.logs {
		fmt.Fprintf(&u.w, "close %s\n", l.ID())
		note(&u.w, "close", l.Close())
	}
	u.logs = nil
}
