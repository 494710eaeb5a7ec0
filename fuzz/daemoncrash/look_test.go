package daemoncrash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon"
	"crabmem/daemon/op"
	"crabmem/daemon/wire/pb"
	"crabmem/fuzz/sessionref"
)

const home = "/machine/home"

// openDaemon opens a daemon on a file system, with a stopped clock.
func openDaemon(fsys vfs.FS) (*daemon.Daemon, error) {
	return daemon.Open(daemon.Options{
		Home: home, FS: fsys, Log: slog.New(slog.DiscardHandler), Getenv: func(string) string { return "" },
		Now: func() time.Time { return time.Unix(1_765_432_100, 0) },
	})
}

var mark = regexp.MustCompile(`(?m)^MARK = ['"](\d*)['"]`)

// look returns the state that a daemon reports. It reads the configuration from the
// file.
func look(m *faultfs.Mem, d *daemon.Daemon) (*found, error) {
	f := &found{cells: map[string]string{}, sessions: map[string][]string{}, ids: map[string]string{}, crons: map[string]uint64{}, archives: map[string]bool{}}
	var unread error
	err := send(d, call("entries.list", op.EntryFilter{Content: true}), func(r *pb.ServerMessage) {
		var list []crmem.Entry
		if len(r.GetResult().GetBody()) > 0 {
			unread = errors.Join(unread, op.Decode(r.GetResult().GetBody(), &list))
		}
		for _, e := range list {
			if e.Kind == crmem.Archive {
				f.archives[e.Content] = true
			}
			f.cells["entry "+e.Name] = e.Kind.String() + " " + e.Content
		}
	})
	if err = errors.Join(err, unread); err != nil {
		return nil, fmt.Errorf("list entries: %w", err)
	}
	crons, err := op.ListCrons.Do(context.Background(), caller{d}, op.None{})
	if err != nil {
		return nil, fmt.Errorf("list crons: %w", err)
	}
	for _, c := range crons {
		f.cells["cron "+c.Args] = c.Schedule + " " + c.Skill + " " + c.Session
		f.crons[c.Args] = c.ID
	}
	text, err := vfs.ReadFile(m, home+"/config.toml", 1<<20)
	if err != nil {
		return nil, err
	}
	if v := mark.FindSubmatch(text); v != nil {
		f.cells["config"] = string(v[1])
	}
	sessions, err := op.ListSessions.Do(context.Background(), caller{d}, op.SessionFilter{})
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	for _, s := range sessions.Items {
		if err := f.addSession(d, &s); err != nil {
			return nil, fmt.Errorf("session %s: %w", s.ID, err)
		}
	}
	return f, nil
}

// addSession adds the lines of a session up to the first bad line. The next writer
// moves that line and the rest to a quarantine file.
func (f *found) addSession(d *daemon.Daemon, s *op.Session) error {
	key := s.Agent + "/" + s.CreatedBy
	if s.Error != "" || f.ids[key] != "" {
		return fmt.Errorf("want one readable session of %s; found another with ID %q or error %q", key, f.ids[key], s.Error)
	}
	f.ids[key] = s.ID
	if s.Title != "" {
		f.cells["title "+key] = s.Title
	}
	f.sessions[key] = []string{}
	h, err := op.ReadLines.Do(context.Background(), caller{d}, op.SessionPage{SessionID: op.SessionID{Session: s.ID}})
	if err == nil && h.Next != "" {
		err = errors.New("the history has more than one page")
	}
	for _, l := range h.Items {
		if l.Kind == "bad" {
			break
		}
		var v struct {
			Role, Content, Compact string
			Calls                  []any `json:"tool_calls"`
			Turn                   struct{ Text, Failed string }
		}
		switch _ = json.Unmarshal(l.Record, &v); l.Kind {
		case "message":
			f.sessions[key] = append(f.sessions[key], v.Role+strings.Repeat("+", len(v.Calls))+" "+v.Content)
		case "marker":
			f.sessions[key] = append(f.sessions[key], "marker "+v.Compact)
		case "unknown":
			f.addTurn(key, v.Turn.Text, v.Turn.Failed)
		}
	}
	return err
}

// addTurn adds a turn record to the lines of a session. It joins pieces of a
// response, and omits the failure that a daemon adds when it resumes a session.
func (f *found) addTurn(key, text, failed string) {
	lines := f.sessions[key]
	switch last := len(lines) - 1; {
	case failed == "interrupted":
		return
	case failed != "":
		lines = append(lines, "failed "+failed)
	case last >= 0 && strings.HasPrefix(lines[last], "piece "):
		lines[last] += text
	default:
		lines = append(lines, "piece "+text)
	}
	f.sessions[key] = lines
}

// isTurn reports whether a line is of a turn record.
func isTurn(line string) bool {
	return strings.HasPrefix(line, "piece ") || strings.HasPrefix(line, "failed ")
}

// agree compares the lines of each session with those of the reference reader. No
// file may have a bad line.
func agree(m *faultfs.Mem, f *found) error {
	list, err := m.ReadDir(home + "/sessions")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the first session creates the folder
		return err
	}
	files := 0
	for _, e := range list {
		if !strings.HasSuffix(e.Name(), ".jsonl") {
			continue
		}
		files++
		text, err := vfs.ReadFile(m, home+"/sessions/"+e.Name(), 1<<20)
		if err != nil {
			return err
		}
		s, err := sessionref.Read(text)
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
		for _, bad := range s.Skipped {
			if !strings.HasPrefix(bad.Text, `{"meta":`) && !strings.HasPrefix(bad.Text, `{"turn":`) {
				return fmt.Errorf("%s: line %d is %q", e.Name(), bad.Line, bad.Text)
			}
		}
		var lines []string
		for _, r := range s.Records {
			if r.Marker {
				lines = append(lines, "marker "+r.Summary)
			} else {
				lines = append(lines, r.Message.Role+strings.Repeat("+", len(r.Message.ToolCalls))+" "+r.Message.Content)
			}
		}
		got := slices.DeleteFunc(slices.Clone(f.sessions[s.Meta.Agent+"/"+s.Meta.CreatedBy]), isTurn)
		if strings.Join(got, "\n") != strings.Join(lines, "\n") {
			return fmt.Errorf("%s has %q, but the daemon reports %q", e.Name(), lines, got)
		}
	}
	if files != len(f.sessions) {
		return fmt.Errorf("%d session files, but the daemon reports %d sessions", files, len(f.sessions))
	}
	return nil
}
