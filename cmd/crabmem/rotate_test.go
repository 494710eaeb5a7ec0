package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/bench/gate"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/service"
)

// TestRotate writes lines to a log, by several processes in sequence: no line
// is lost until there are more files than the limit, no file exceeds its size,
// and a follower sees every line once and in order.
func TestRotate(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "logs", "daemon.log")
	c := newApp(nil, nil, nil)
	r := &service.LogReader{FS: c.fs, Name: name}
	defer r.Close()
	var all, seen []byte
	look := func() {
		b, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, b...)
	}
	look()
	const max, keep = 1000, 3
	for run := range 20 {
		l, err := c.openLog(name)
		if err != nil {
			t.Fatal(err)
		}
		l.rotate(max, keep)
		for n := range 37 {
			line := fmt.Appendf(nil, "run %d line %d %s\n", run, n, strings.Repeat("x", n))
			if k, err := l.Write(line); k != len(line) || err != nil {
				t.Fatal(k, err)
			}
			all = append(all, line...)
			if n%5 == 0 {
				look()
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	look()
	if !bytes.Equal(seen, all) {
		t.Errorf("who followed saw %d bytes of %d", len(seen), len(all))
	}
	var kept []byte
	for n := keep; n >= 0; n-- {
		file := name
		if n > 0 {
			file += fmt.Sprintf(".%d", n)
		}
		b, err := os.ReadFile(file)
		if err != nil || len(b) > max || n > 0 && len(b) < max-100 {
			t.Errorf("%s: %d bytes, %v", file, len(b), err)
		}
		kept = append(kept, b...)
	}
	if !bytes.HasSuffix(all, kept) {
		t.Errorf("the logs are not the end of the written lines:\n%s", kept)
	}
	if list, err := os.ReadDir(filepath.Dir(name)); err != nil || len(list) != keep+1 {
		t.Errorf("%v, %v", list, err)
	}
	last := &service.LogReader{FS: c.fs, Name: name}
	b, err := last.Last(12)
	if err = errors.Join(err, last.Close()); err != nil || bytes.Count(b, []byte("\n")) != 12 || !bytes.HasSuffix(all, b) {
		t.Errorf("the last 12 lines: %q, %v", b, err)
	}
}

// TestRotateKeepsNone truncates the log instead of keeping old files.
func TestRotateKeepsNone(t *testing.T) {
	m := faultfs.NewMem()
	c := newApp(nil, nil, nil)
	c.fs = m
	l, err := c.openLog("/logs/x.log")
	if err != nil {
		t.Fatal(err)
	}
	l.rotate(10, 0)
	for range 3 {
		if _, err := l.Write([]byte("1234567\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	list, err := m.ReadDir("/logs")
	if err != nil || len(list) != 1 || c.fileSize("/logs/x.log") != 8 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestRotateFails writes on where a log cannot be renamed: no line is lost.
func TestRotateFails(t *testing.T) {
	m := faultfs.NewMem()
	c := newApp(nil, nil, nil)
	c.fs = m
	l, err := c.openLog("/logs/x.log")
	if err != nil {
		t.Fatal(err)
	}
	l.rotate(100, 2)
	var all strings.Builder
	renames := 0
	m.Hook = func(call faultfs.Call) error {
		if call.Op == "rename" {
			renames++
			return errors.New("not today")
		}
		return nil
	}
	for n := range 100 {
		line := fmt.Sprintf("line %d\n", n)
		all.WriteString(line)
		if _, err := l.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	m.Hook = nil
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := vfs.ReadFile(m, "/logs/x.log", 1<<20)
	if err != nil || string(b) != all.String() || renames < 5 || renames > 20 {
		t.Errorf("%d renames, %v: %s", renames, err, b)
	}
}

// TestDaemonRotates starts a daemon that finds a long log: it is renamed, by
// the limits of the configuration. A second daemon leaves the files alone.
func TestDaemonRotates(t *testing.T) {
	dir, err := os.MkdirTemp("", "crab")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	home := filepath.Join(dir, "home")
	name := logFile(home)
	long := []byte(strings.Repeat("{\"msg\":\"old\"}\n", 6000))
	err = errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, long, 0o600),
		os.WriteFile(filepath.Join(home, "config.toml"), []byte("[log]\nmax_size = 65536\nkeep = 1\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- newApp(strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer)).execute(ctx, []string{"--home", home, "daemon", "--log", name})
	}()
	gate.Until(t, "the old log", func() bool { _, err := os.Stat(name + ".1"); return err == nil })
	if b, err := os.ReadFile(name + ".1"); err != nil || !bytes.HasPrefix(b, long) {
		t.Errorf("the old log has %d bytes: %v", len(b), err)
	}
	second := newApp(strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer)).execute(ctx, []string{"--home", home, "daemon", "--log", name, "--lock-wait", "0"})
	if code := classify(second).Code; code != cli.ExitConflict {
		t.Errorf("a second daemon: %v", second)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	b, err := os.ReadFile(name)
	if err != nil || !bytes.Contains(b, []byte(`"msg":"listening"`)) || !bytes.Contains(b, []byte(`"msg":"the daemon did not start"`)) || !bytes.Contains(b, []byte(`"msg":"stopping"`)) {
		t.Errorf("the log: %s, %v", b, err)
	}
	if _, err := os.Stat(name + ".2"); err == nil {
		t.Error("more was kept than should be")
	}
}
