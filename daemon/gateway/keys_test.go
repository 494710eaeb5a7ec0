package gateway

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
)

var noon = time.Date(2026, 4, 14, 12, 0, 0, 0, time.UTC)

// TestKeyFile adds and removes keys, and refuses names.
func TestKeyFile(t *testing.T) {
	m := faultfs.NewMem()
	texts := make(map[string]string)
	for _, name := range []string{"b", "a", "c-1"} {
		text, k, err := AddKey(m, "/h", Key{Name: name, Agents: []string{"crab"}}, noon)
		if err != nil {
			t.Fatal(err)
		}
		if texts[name] = text; len(text) != 47 || k.SHA256 != op.SHA256(text) || k.Begins != text[:8] || k.Identity() != "api:"+name || k.CreatedAt != "2026-04-14T12:00:00Z" {
			t.Errorf("%s: %q %+v", name, text, k)
		}
	}
	if texts["a"] == texts["b"] {
		t.Error("two keys are equal")
	}
	names := func() (list []string) {
		keys, err := Keys(m, "/h")
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			list = append(list, k.Name)
		}
		return list
	}
	if got := names(); !slices.Equal(got, []string{"a", "b", "c-1"}) {
		t.Errorf("keys: %q", got)
	}
	_, _, err := AddKey(m, "/h", Key{Name: "a"}, noon)
	if row := errtable.Find(err); row.Kind != "exists" || row.Exit != errtable.ExitConflict {
		t.Errorf("a taken name: %v", err)
	}
	for _, name := range []string{"", "A", "-a", "a b", "a:b", "a/b", "é", strings.Repeat("n", 64)} {
		if _, _, err := AddKey(m, "/h", Key{Name: name}, noon); errtable.Find(err).Kind != "invalid" {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := RemoveKey(m, "/h", "b"); err != nil {
		t.Fatal(err)
	}
	if row := errtable.Find(RemoveKey(m, "/h", "b")); row.Kind != "not_found" || row.Exit != errtable.ExitNotFound {
		t.Errorf("a missing name: %+v", row)
	}
	if got := names(); !slices.Equal(got, []string{"a", "c-1"}) {
		t.Errorf("keys: %q", got)
	}
}

// TestKeyFileCrash cuts the power at each call of AddKey: the file has the old keys or
// the new ones.
func TestKeyFileCrash(t *testing.T) {
	m := faultfs.NewMem()
	if _, _, err := AddKey(m, "/h", Key{Name: "a"}, noon); err != nil {
		t.Fatal(err)
	}
	var machines []*faultfs.Mem
	m.Hook = func(faultfs.Call) error {
		machines = append(machines, m.Crash())
		return nil
	}
	if _, _, err := AddKey(m, "/h", Key{Name: "b"}, noon); err != nil {
		t.Fatal(err)
	}
	m.Hook = nil
	machines = append(machines, m.Crash())
	seen := make(map[int]bool)
	for i, m := range machines {
		keys, err := Keys(m, "/h")
		if err != nil || len(keys) < 1 {
			t.Errorf("crash %d: %v %v", i, keys, err)
		}
		seen[len(keys)] = true
	}
	if !seen[1] || !seen[2] {
		t.Errorf("states: %v", seen)
	}
	if keys, _ := Keys(machines[len(machines)-1], "/h"); len(keys) != 2 {
		t.Error("an added key is not durable")
	}
}

// TestKeyFileConcurrently adds keys concurrently: the file contains all.
func TestKeyFileConcurrently(t *testing.T) {
	home := t.TempDir()
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if _, _, err := AddKey(vfs.OS{}, home, Key{Name: fmt.Sprint("k", i)}, noon); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if keys, err := Keys(vfs.OS{}, home); err != nil || len(keys) != 16 {
		t.Errorf("%d keys: %v", len(keys), err)
	}
}

// TestExpired: a time that cannot be read has passed.
func TestExpired(t *testing.T) {
	for expires, want := range map[string]bool{"": false, "2026-04-14T12:00:00Z": true, "2026-04-14T12:00:01Z": false, "2026-04-14T14:00:00+02:00": true, "soon": true} {
		if k := (Key{Expires: expires}); k.Expired(noon) != want {
			t.Errorf("%q: expired %v", expires, !want)
		}
	}
}

// TestConfig reads configurations, and refuses others with file and line.
func TestConfig(t *testing.T) {
	home := t.TempDir()
	if c, err := ReadConfig(vfs.OS{}, home); err != nil || c.Server.Port != 3000 || c.Limits.Calls != 64 {
		t.Errorf("without a file: %+v, %v", c, err)
	}
	file := filepath.Join(home, File)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"[server]\nport = 80\nallow_hosts = [\"example.org\"]\n[limits]\nrate = 0.5\n": "",
		"[server]\nhots = \"x\"\n":                           ":2: unknown key server.hots",
		"[server]\nport = \"x\"\n":                           ":2: ",
		"[server\n":                                          ":1: ",
		"[limits]\ncalls = 0\n":                              "limits.calls = 0: want 1 to 1048576",
		"[limits]\nrate = -1\n":                              "limits.rate = -1",
		"[limits]\nrate = nan\n":                             "limits.rate = NaN",
		"[server]\nport = 65536\n":                           "server.port = 65536",
		"[server]\nallow_hosts = [\"a/b\"]\n":                `allow_hosts: "a/b" is not the name of a host`,
		"[auth]\napi_keys = [\"${UNSET}\"]\n":                "unknown key auth",
		strings.Repeat("# long\n", 1<<20/7) + "# and longer": "more than the limit",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := ReadConfig(vfs.OS{}, home)
		if want == "" && (err != nil || c.Server.Port != 80 || c.Limits.Rate != 0.5 || c.Limits.Calls != 64) {
			t.Errorf("%+v, %v", c, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	if err := os.Chmod(file, 0o622); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadConfig(vfs.OS{}, home); errtable.Find(err).Kind != "permission" {
		t.Errorf("a file that others can change: %v", err)
	}
}

// TestListen refuses addresses that other machines reach, without a name for them.
func TestListen(t *testing.T) {
	for host, ok := range map[string]bool{"127.0.0.1": true, "::1": true, "localhost": true, "0.0.0.0": false, "": false, "192.0.2.1": false} {
		s := Server{Host: host}
		l, err := s.Listen()
		if err == nil {
			l.Close()
		}
		var e *errtable.Error
		if host != "::1" && ok != (err == nil) || !ok && (!errors.As(err, &e) || e.Kind != "config") {
			t.Errorf("%q: %v", host, err)
		}
	}
	s := Server{Host: "0.0.0.0", AllowHosts: []string{"example.org"}}
	l, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
}
