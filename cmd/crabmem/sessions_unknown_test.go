package main

import (
	"bytes"
	"context"
	"maps"
	"strings"
	"syscall"
	"testing"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

const transcriptLines = `{"timestamp":"2026-03-02T10:00:00Z","type":"session_meta","payload":{"id":"0199a000-0000-7000-8000-000000000001","timestamp":"2026-03-02T10:00:00Z"}}
{"timestamp":"2026-03-02T11:00:00Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}}
`

// onMemHome returns a command line whose home is in a file system in memory,
// with sessions in it.
func onMemHome(t *testing.T, m *faultfs.Mem) (*app, *bytes.Buffer) {
	t.Helper()
	var diag bytes.Buffer
	c := newApp(strings.NewReader(""), new(bytes.Buffer), &diag)
	c.fs = m
	return c, &diag
}

// TestSessionsUnknownOutcome fails each sync in turn of every command that
// changes sessions, once or permanently. Exit code 0 means that the change
// exists, 6 that the outcome is unknown, and any other code that nothing
// changed.
func TestSessionsUnknownOutcome(t *testing.T) {
	const meta = `{"agent":"crab","created_by":"user","created_at":"2026-04-14T10:23:45+00:00"}` + "\n"
	for line, made := range map[string]map[string]string{
		"title crab_user_1 t": {"/h/sessions/crab_user_1.jsonl": meta},
		"delete crab_user_1":  {"/h/sessions/crab_user_1.jsonl": meta},
		"restore crab_user_1": {"/h/sessions/.trash/crab_user_1.jsonl": meta},
		"import /t.jsonl":     {"/t.jsonl": transcriptLines},
		"repair crab_user_1":  {"/h/sessions/crab_user_1.jsonl": meta + "bad\n"},
	} {
		unknown, refused, done := 0, 0, 0
		for n := 1; done < 2; n++ {
			done = 0
			for _, permanent := range []bool{false, true} {
				m := faultfs.NewMem()
				for name, content := range made {
					putMem(t, m, name, content)
				}
				before := sessionsOf(t, m)
				c, diag := onMemHome(t, m)
				calls := 0
				m.Hook = func(c faultfs.Call) error {
					switch c.Op {
					case "sync", "datasync", "syncdir":
						if calls++; calls == n || permanent && calls > n {
							return syscall.EIO
						}
					}
					return nil
				}
				code := c.report(c.execute(context.Background(), append([]string{"sessions", "--home", "/h"}, strings.Fields(line)...)))
				m.Hook = nil
				if calls < n {
					done++
				}
				changed := !maps.Equal(before, sessionsOf(t, m))
				switch {
				case code == cli.ExitUnknown:
					unknown++
					if !strings.Contains(diag.String(), "outcome unknown") {
						t.Errorf("%s, sync %d: %s", line, n, diag.String())
					}
				case (code == 0) != changed:
					t.Errorf("%s, sync %d (permanently: %v): exit code %d, changed: %v, %s", line, n, permanent, code, changed, diag.String())
				case code != 0:
					refused++
				}
			}
		}
		if unknown == 0 || refused == 0 {
			t.Errorf("%s: %d outcomes were unknown, %d refused", line, unknown, refused)
		}
		t.Logf("%s: %d outcomes were unknown, %d refused", line, unknown, refused)
	}
}

// sessionsOf returns the contents of the sessions of /h and of their trash.
func sessionsOf(t *testing.T, m *faultfs.Mem) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, dir := range []string{"/h/sessions", "/h/sessions/.trash"} {
		list, _ := m.ReadDir(dir) // it may be missing
		for _, e := range list {
			if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
				continue
			}
			b, err := vfs.ReadFile(m, dir+"/"+e.Name(), 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			all[dir+"/"+e.Name()] = string(b)
		}
	}
	return all
}

func putMem(t *testing.T, m *faultfs.Mem, name, content string) {
	t.Helper()
	dir := name[:strings.LastIndexByte(name, '/')]
	if err := vfs.MkdirAll(m, dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := m.OpenFile(name, syscall.O_CREAT|syscall.O_WRONLY|syscall.O_APPEND, 0o600)
	if err == nil {
		_, err = f.Write([]byte(content))
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
