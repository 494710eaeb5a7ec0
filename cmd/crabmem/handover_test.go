package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon"
	"crabmem/daemon/client"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/wire"
)

var fixedNow = time.Date(2026, 4, 14, 10, 23, 45, 0, time.UTC)

// place is a home for command lines, with a stopped clock.
type place struct {
	t    *testing.T
	home string
	env  map[string]string
	stop func() error // stops the daemon; nil = no daemon
}

func newPlace(t *testing.T, withDaemon bool) *place {
	t.Helper()
	dir, err := os.MkdirTemp("", "crab") // short: a socket is in it
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, home: filepath.Join(dir, "home"), env: map[string]string{"EDITOR": ""}}
	t.Cleanup(func() {
		p.ends()
		os.RemoveAll(dir)
	})
	p.write("sessions/ghost_user_1.jsonl", `{"agent":"ghost","created_by":"user","created_at":"2026-04-14T10:23:45+00:00","title":"","uptime_secs":0}
{"role":"user","content":"which port does it listen on?"}
{"role":"assistant","content":"6688, on loopback."}
`)
	p.write("sessions/ghost_user_2.jsonl", `{"agent":"ghost","created_by":"user","created_at":"2026-04-14T10:23:45+00:00","title":"","uptime_secs":0}
{"role":"user","content":"one"}
this is no record
{"compact":"one was said"}
{"meta":{"title":"","uptime_secs":1}}
{"role":"assistant","content":"two"}
`)
	if withDaemon {
		p.begins()
	}
	return p
}

func (p *place) begins() {
	p.t.Helper()
	stop, err := serveHome(daemon.Options{Home: p.home, LockWait: time.Minute, Now: func() time.Time { return fixedNow }, Getenv: func(string) string { return "" }})
	if err != nil {
		p.t.Fatal(err)
	}
	p.stop = stop
}

func (p *place) ends() {
	if p.stop != nil {
		if err := p.stop(); err != nil {
			p.t.Errorf("the daemon: %v", err)
		}
		p.stop = nil
	}
}

func (p *place) write(name, text string) {
	p.t.Helper()
	name = filepath.Join(p.home, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) client() *client.Client {
	return &client.Client{Addr: wire.Addr{Network: "unix", Address: daemon.Socket(p.home)}}
}

// runs runs a command line. It replaces HOME with the place's home in the
// arguments, and the reverse in the output.
func (p *place) runs(args ...string) (stdout, stderr string, code int) {
	var out, diag bytes.Buffer
	c := newApp(strings.NewReader("from standard input\n"), &out, &diag)
	c.now = func() time.Time { return fixedNow }
	c.Getenv = func(k string) string {
		if k == "CRABTALK_HOME" {
			return p.home
		}
		return p.env[k]
	}
	line := make([]string, len(args))
	for i, a := range args {
		line[i] = strings.ReplaceAll(a, "HOME", p.home)
	}
	code = c.report(c.execute(context.Background(), line))
	neutral := strings.NewReplacer(p.home, "HOME", filepath.Dir(p.home), "DIR")
	return neutral.Replace(out.String()), neutral.Replace(diag.String()), code
}

// state returns everything that commands may change: the entries, and the
// session files.
func (p *place) state() string {
	p.t.Helper()
	var b strings.Builder
	out, _, code := p.runs("export")
	if code == 0 {
		b.WriteString(out)
	}
	for _, pattern := range []string{"sessions/*.jsonl", "sessions/.trash/*.jsonl", "sessions/.damaged/*", "book/*/*.md", "book/conflicts/*/*"} {
		names, err := filepath.Glob(filepath.Join(p.home, pattern))
		if err != nil {
			p.t.Fatal(err)
		}
		for _, n := range names {
			text, err := os.ReadFile(n)
			if err != nil {
				p.t.Fatal(err)
			}
			fmt.Fprintf(&b, "== %s\n%s", strings.TrimPrefix(n, p.home), text)
		}
	}
	return b.String()
}

const (
	// editPage edits a page of the book; \x00 are blanks that stay.
	sameLines = `
remember deploy|build, tag, push|--alias|ship
remember deploy|build, tag, push, watch|--json
remember tea|-
remember tea|green|--no-alias|--json
remember a <b> "c"|quotes & such|--alias|x y|--json
remember chat|what was said|--kind|archive
remember chat|again
remember chat|again|--kind|archive|--json
remember deploy|build|--no-alias|--alias|y
remember |text
remember deploy|build|-q
show deploy
show nobody|--json
show deplyo
show deplyo|--json
forget deplyo
alias deplyo
alias deplyo|x
edit deplyo
alias deploy|ship|release
alias deploy|--add|go|ship|--json
alias deploy|--remove|nothing
alias deploy|--remove|ship|--json
alias go
alias tea|go
alias go|x|--json
rename deploy|rollout
rename rollout|tea
rename unknown|x
rename rollout|
rename rollout|deploy|--json
rename deploy|deploy
append deploy|then rest
append deploy|-
append deploy|more|--json
append chat|x
append deplyo|x
append deploy|
alias nobody|x
alias tea|--none
forget go
forget chat
forget chat|--json
forget deploy|--dry-run
forget nobody
forget nobody|--json
recall how do we deploy|--json
recall what was said|--explain
recall biuld|--json|--explain
recall build|--budget|40|--why-not|tea
recall zeppelin|--exit-code
recall zeppelin|--exit-code|--json
recall green or archive|--limit|0|--json|--explain|--why-not|tea
recall quotes such|--kind|archive
recall quotes such|--analyzer|plain|--explain
recall --syntax|-build kind:note|--json
recall --syntax|build after:soon
recall --syntax|build before:|--json
recall watch|--budget|1
recall build tag push|--budget|60|--json
list
list --json|--content
edit deploy
edit deploy|--json
edit nobody
export
dump HOME/book
dump HOME/book|--json
remember since|the dump
load HOME/book
load HOME/book|--json
load HOME/book|--dry-run|--replace
load HOME/nowhere
load HOME/nowhere|--json
remember deploy|of the store
edit-page
load HOME/book|--merge
load HOME/book|--merge|--json
settle
load HOME/book|--merge|--json
load HOME/book|--replace
load HOME/book|--replace|--json
import HOME/lines.jsonl
import HOME/lines.jsonl|--json
import HOME/other.jsonl
import HOME/other.jsonl|--skip
import HOME/other.jsonl|--replace|--json
import HOME/wrong.jsonl
import HOME/lines.jsonl|--dry-run
prune --keep|1|--dry-run
prune --keep|1
prune --older-than|1d|--json
forget chat|--archive
forget tea|--json
list --kind|archive
recall compile watch tea|--explain
recall forty|--json|--why-not|deploy
sessions list|--json
sessions title|ghost_user_1|Which port
sessions title|ghost_user_1|Another|--json
sessions title|nobody|x
sessions show|ghost_user_1
sessions search|port|--json
sessions delete|ghost_user_1|--dry-run
sessions repair|ghost_user_2|--dry-run
sessions repair|ghost_user_2
sessions repair|ghost_user_2|--json
sessions delete|ghost_user_1|nobody
sessions delete|ghost_user_1
sessions list|--trash
sessions restore|ghost_user_1|--json
sessions restore|ghost_user_1
sessions delete|ghost_user_1|ghost_user_2|--json
sessions restore|ghost_user_2`
)

// TestSameWithDaemon runs a table of command lines without a daemon, and with a
// daemon that has the store and every session open. Standard output, standard
// error, exit codes, store, and sessions must be equal, byte for byte.
func TestSameWithDaemon(t *testing.T) {
	t.Parallel()
	places := [2]*place{newPlace(t, false), newPlace(t, true)}
	for _, p := range places {
		p.write("lines.jsonl", `{"id":40,"name":"forty","created_at":5,"content":"x","aliases":["f"]}`+"\n"+`{"name":"coffee","content":"black","created_at":9,"kind":"archive"}`+"\n")
		p.write("other.jsonl", `{"name":"coffee","content":"white","created_at":9,"kind":"archive"}`+"\n"+`{"name":"forty","content":"y","kind":"archive"}`+"\n")
		p.write("wrong.jsonl", `{"name":"ok"}`+"\n"+`{"name":"","content":"x"}`+"\n")
		p.env["EDITOR"] = `sed -i s/push/pull/`
	}
	d := places[1].client()
	defer d.Close()
	handed := 0
	for n, line := range strings.Split(strings.TrimSpace(sameLines), "\n") {
		var outs, states [2]string
		ran := false // false for a line that only edits files
		for i, p := range places {
			switch line {
			case "edit-page":
				p.write("book/notes/deploy.md", strings.ReplaceAll(mustRead(t, filepath.Join(p.home, "book/notes/deploy.md")), "build", "compile"))
				continue
			case "settle":
				if err := os.RemoveAll(filepath.Join(p.home, "book/conflicts")); err != nil {
					t.Fatal(err)
				}
				continue
			}
			ran = true
			args := strings.Split(line, "|")
			if cmd, first, ok := strings.Cut(args[0], " "); ok {
				args = append([]string{cmd, first}, args[1:]...)
			}
			if i == 1 && args[0] == "sessions" {
				places[1].openAll(d)
			}
			out, diag, code := p.runs(args...)
			outs[i] = fmt.Sprintf("code %d\n%s-- stderr\n%s", code, out, diag)
			states[i] = p.state()
		}
		if ran {
			handed++
		}
		if outs[0] != outs[1] {
			t.Errorf("%d: crabmem %s: without a daemon\n%s\nwith one\n%s", n, line, outs[0], outs[1])
		}
		if states[0] != states[1] {
			a, b := differing(states[0], states[1])
			t.Fatalf("%d: crabmem %s leaves without a daemon\n%s\nwith one\n%s", n, line, a, b)
		}
	}
	t.Logf("%d command lines, the same with a daemon", handed)
}

// differing returns the first lines that differ, with their heads.
func differing(a, b string) (string, string) {
	as, bs, head := strings.SplitAfter(a, "\n"), strings.SplitAfter(b, "\n"), ""
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return head + as[i], head + bs[i]
		}
		if strings.HasPrefix(as[i], "== ") {
			head = as[i]
		}
	}
	return fmt.Sprint(head, len(as), " lines"), fmt.Sprint(head, len(bs), " lines")
}

// openAll makes every session that there is one of the daemon's own, so that its
// lock is held.
func (p *place) openAll(d *client.Client) {
	list, err := op.ListSessions.Do(context.Background(), d, op.SessionFilter{})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, s := range list.Items {
		if s.Number > 0 {
			continue
		}
		// The daemon has no agent of that name: the session is opened, but not
		// written.
		_, err := op.SendMessage.Do(context.Background(), d, op.Message{Session: s.ID})
		if err == nil || !strings.Contains(err.Error(), "agent 'ghost' not registered") {
			p.t.Errorf("resuming %s: %v", s.ID, err)
		}
	}
}

func mustRead(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// opened notes the files that are opened.
type opened struct {
	vfs.OS
	names []string
}

func (o *opened) note(name string) { o.names = append(o.names, filepath.Base(name)) }

func (o *opened) has(name string) bool { return slices.Contains(o.names, name) }

func (o *opened) Open(name string) (vfs.File, error) {
	o.note(name)
	return o.OS.Open(name)
}

func (o *opened) OpenFile(name string, flag int, mode fs.FileMode) (vfs.File, error) {
	o.note(name)
	return o.OS.OpenFile(name, flag, mode)
}

// TestHandOver checks which process writes: a daemon of another store is not
// used, a stopping daemon is waited for, and a large change arrives.
func TestHandOver(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	if out, diag, code := p.runs("remember", "a", "one"); code != 0 || out != "remembered a (note 1, 3 bytes): created\n" {
		t.Fatalf("%d %s%s", code, out, diag)
	}
	if b := mustRead(t, filepath.Join(p.home, "memory.db-lock")); !strings.Contains(b, "command crabmem daemon\n") {
		t.Errorf("the lock is %q", b)
	}

	t.Run("recall", func(t *testing.T) {
		fsys := &opened{}
		c := newApp(nil, io.Discard, io.Discard)
		c.fs = fsys
		if err := c.execute(t.Context(), []string{"recall", "one", "--explain", "--exit-code", "--home", p.home}); err != nil || fsys.has("memory.db") {
			t.Errorf("the daemon was not asked: %v, opened %q", err, fsys.names)
		}
		if err := c.execute(t.Context(), []string{"recall", "one", "--home", p.home, "--db", filepath.Join(p.home, "other.db")}); !errors.Is(err, crmem.ErrNoStore) {
			t.Errorf("the daemon was asked for another store: %v", err)
		}
	})

	t.Run("repair", func(t *testing.T) {
		start := time.Now()
		_, diag, code := p.runs("repair")
		if code != cli.ExitConflict || !strings.Contains(diag, "lock HOME/memory.db: held by a daemon") || !strings.Contains(diag, "crabmem daemon stop") {
			t.Errorf("%d %s", code, diag)
		}
		gate.Time(t, "refusal", start, 3*time.Second)
	})

	t.Run("large", func(t *testing.T) {
		var lines strings.Builder
		for i := range 3 {
			fmt.Fprintf(&lines, `{"name":"big %d","created_at":5,"content":"%s"}`+"\n", i, strings.Repeat("x", 7<<20))
		}
		p.write("big.jsonl", lines.String())
		if out, diag, code := p.runs("import", "HOME/big.jsonl", "--json"); code != 0 || !strings.Contains(out, `"added":3`) {
			t.Errorf("%d %s%s", code, out, diag)
		}
		p.env["EDITOR"] = `sed -i s/xxxx/y/`
		if out, diag, code := p.runs("edit", "big 0"); code != 0 || !strings.Contains(out, "edited big 0") {
			t.Errorf("%d %s%s", code, out, diag)
		}
		left, err := filepath.Glob(filepath.Join(os.TempDir(), "crabmem-changes-*"))
		if err != nil || len(left) > 0 {
			t.Errorf("remaining files: %v, %v", left, err)
		}
	})

	t.Run("another store", func(t *testing.T) {
		other := newPlace(t, false)
		db := filepath.Join(other.home, "memory.db")
		l, err := vfs.OS{}.Lock(db + "-lock")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.SetText(vfs.LockHolder{PID: 4711, Command: "crabmem x", Socket: daemon.Socket(p.home)}.Text()); err != nil {
			t.Fatal(err)
		}
		out, diag, code := other.runs("remember", "a", "of another", "--db", db, "--lock-wait", "100ms")
		if code != cli.ExitConflict || !strings.Contains(diag, "held by process 4711 (crabmem x)") {
			t.Errorf("%d %s%s", code, out, diag)
		}
		// A socket without a listener: the command retries until the lock is
		// free.
		if err := l.SetText(vfs.LockHolder{PID: 4711, Command: "crabmem x", Socket: filepath.Join(other.home, "none.sock")}.Text()); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(200*time.Millisecond, func() { l.Unlock() })
		if out, diag, code := other.runs("remember", "a", "in time", "--db", db); code != 0 {
			t.Errorf("%d %s%s", code, out, diag)
		}
	})

	t.Run("conflict", func(t *testing.T) {
		// The entry changes between the view and the change, each time once.
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for k := range 8 {
					if out, diag, code := p.runs("alias", "a", "--add", fmt.Sprint("alias ", i, " ", k)); code != 0 {
						t.Errorf("%d %s%s", code, out, diag)
					}
				}
			})
		}
		wg.Wait()
		out, _, _ := p.runs("alias", "a")
		if n := strings.Count(out, "\n"); n != 32 {
			t.Errorf("%d aliases", n)
		}
	})

	t.Run("restart", func(t *testing.T) {
		// A daemon stops while commands write: no command fails, and no write
		// is lost.
		p := newPlace(t, true)
		done, acknowledged := make(chan struct{}), make(chan struct{}, 60)
		var wrote []string
		go func() {
			defer close(done)
			for i := range 60 {
				name := fmt.Sprint("restart ", i)
				out, diag, code := p.runs("remember", name, "x")
				if code != 0 {
					t.Errorf("%s: %d %s%s", name, code, out, diag)
					return
				}
				wrote = append(wrote, name)
				acknowledged <- struct{}{}
			}
		}()
		for range 3 {
			<-acknowledged
			p.ends()
			p.begins()
		}
		<-done
		p.ends()
		s, err := crmem.Open(filepath.Join(p.home, "memory.db"), &crmem.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, n := range wrote {
			if _, err := s.Get(n); err != nil {
				t.Error(err)
			}
		}
		if len(wrote) != 60 {
			t.Errorf("%d of 60 were acknowledged", len(wrote))
		}
	})
}

// TestErrorsOfDaemon checks that an error of the daemon has the code and the
// remedy of the same error here.
func TestErrorsOfDaemon(t *testing.T) {
	for _, c := range []struct {
		err    client.Error
		code   int
		kind   string
		remedy string
	}{
		{client.Error{Code: 404, Kind: "not_found", Message: "x", Family: errtable.Store}, cli.ExitNotFound, "not_found", "run crabmem list to see the names"},
		{client.Error{Code: 404, Kind: "not_found", Message: "x", Family: errtable.Session}, cli.ExitNotFound, "not_found", "run crabmem sessions list to see the IDs"},
		{client.Error{Code: 409, Kind: "busy", Message: "x", Remedy: "wait", Family: errtable.Session}, cli.ExitConflict, "busy", "wait"},
		{client.Error{Code: 409, Kind: "changed", Message: "x", Family: errtable.Store}, cli.ExitConflict, "changed", "read the entry again, then retry"},
		{client.Error{Code: 507, Kind: "no_space", Message: "x", Family: errtable.Store}, cli.ExitFailure, "no_space", "free disk space, then retry"},
		{client.Error{Code: 500, Kind: "outcome_unknown", Message: "x", Family: errtable.Store}, cli.ExitUnknown, "outcome_unknown", "run crabmem show to see whether the write took effect; check the disk before you retry"},
		{client.Error{Code: 403, Kind: "permission", Message: "x", Path: "/p", Family: errtable.Store}, cli.ExitPermission, "permission", "check the owner and the mode of the file and its directory"},
		{client.Error{Code: 400, Kind: "config", Message: "x", Path: "/h/config.toml", Details: []byte(`[{"path":"/h/config.toml","line":2}]`)}, cli.ExitFailure, "config", "run crabmem config edit to correct /h/config.toml, line 2"},
		{client.Error{Code: 500, Message: "of another daemon"}, cli.ExitFailure, "failed", ""},
	} {
		f := classify(&c.err)
		if f.Code != c.code || f.Kind != c.kind || f.Remedy != c.remedy || f.Message != c.err.Message || f.Path != c.err.Path {
			t.Errorf("%+v is %+v", c.err, f)
		}
	}
}
