package secret_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/errtable"
	"crabmem/daemon/secret"

	"github.com/zalando/go-keyring"
)

const setEnv = "CRABMEM_TEST_SECRET_SET"

// TestMain sets one secret if the test runs as a child process.
func TestMain(m *testing.M) {
	if name := os.Getenv(setEnv); name != "" {
		s := &secret.Store{FS: vfs.OS{}, Home: os.Getenv("CRABTALK_HOME"), LockWait: time.Minute}
		if _, _, err := s.Set(name, "value of "+name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fake is a keyring in memory.
type fake struct {
	mu   sync.Mutex
	keys map[string]string
	err  error
	wait chan bool // if set, calls wait for it
}

func (f *fake) keyring() secret.Keyring {
	return secret.Keyring{
		Get: func(id string) (string, error) {
			if f.wait != nil {
				<-f.wait
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			key, ok := f.keys[id]
			if !ok && f.err == nil {
				return "", keyring.ErrNotFound
			}
			return key, f.err
		},
		Set: func(id, key string) error {
			if f.wait != nil {
				<-f.wait
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.err == nil {
				f.keys[id] = key
			}
			return f.err
		}}
}

func newStore(t testing.TB, k secret.Keyring) (*faultfs.Mem, *secret.Store) {
	t.Helper()
	m := faultfs.NewMem()
	if err := vfs.MkdirAll(m, "/h", 0o700); err != nil {
		t.Fatal(err)
	}
	return m, &secret.Store{FS: m, Home: "/h", Keyring: k, Now: func() time.Time { return time.Date(2026, 11, 23, 9, 30, 15, 7, time.UTC) }}
}

func set(t testing.TB, s *secret.Store, name, value string) secret.Place {
	t.Helper()
	p, _, err := s.Set(name, value)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func get(s *secret.Store, name string) (string, error) {
	v, err := s.Open()
	if err != nil {
		return "", err
	}
	return v.Get(name)
}

func read(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name, 16<<20)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// refused checks the kind of an error, and that it has a fix and no value.
func refused(t *testing.T, err error, kind string) {
	t.Helper()
	row := errtable.Find(err)
	if err == nil || row.Kind != kind || row.Fix == "" || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v, kind %q, fix %q; want kind %q", err, row.Kind, row.Fix, kind)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, place := range []string{"file", "keyring"} {
		t.Run(place, func(t *testing.T) {
			f := &fake{keys: map[string]string{}}
			k := f.keyring()
			if place == "file" {
				k = secret.Keyring{}
			}
			m, s := newStore(t, k)
			if l, err := s.List(); err != nil || len(l.Secrets) != 0 || l.Key.Kind != "" {
				t.Errorf("an empty store: %+v, %v", l, err)
			}
			if _, err := get(s, "a"); errtable.Find(err).Kind != "not_found" {
				t.Errorf("get from an empty store: %v", err)
			}
			values := map[string]string{"openai": "sk-hunter2", "b": "two\nlines\n", "0": strings.Repeat("é", secret.MaxValue/2), "b-c": "\x00"}
			for _, name := range slices.Sorted(maps.Keys(values)) {
				if p := set(t, s, name, "old hunter2"); p.Kind != place {
					t.Errorf("the key is in %+v", p)
				}
				if _, created, err := s.Set(name, values[name]); err != nil || created {
					t.Errorf("replacement: %v, %v", created, err)
				}
			}
			s = &secret.Store{FS: m.Crash(), Home: "/h", Keyring: k}
			for name, want := range values {
				if got, err := get(s, name); err != nil || got != want {
					t.Errorf("%s: %.20q, %v", name, got, err)
				}
			}
			l, err := s.List()
			if err != nil || len(l.Secrets) != 4 || l.Secrets[0].Name != "0" || l.Secrets[0].Set.Format(time.RFC3339) != "2026-11-23T09:30:15Z" || l.Key.Kind != place {
				t.Errorf("list %+v, %v", l, err)
			}
			names := []string{"/h/secrets.json"}
			if place == "file" {
				names = append(names, "/h/secrets.key")
			} else if _, err := m.Lstat("/h/secrets.key"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("key file: %v", err)
			}
			for _, name := range names {
				if fi, err := m.Lstat(name); err != nil || fi.Mode() != 0o600 {
					t.Errorf("%s: %v, %v", name, fi, err)
				}
				for _, part := range []string{"hunter2", "aHVudGVyMg"} {
					if bytes.Contains(read(t, m, name), []byte(part)) {
						t.Errorf("%s contains %q", name, part)
					}
				}
			}
			if err := s.Remove("b"); err != nil {
				t.Fatal(err)
			}
			_, err = get(s, "b")
			refused(t, err, "not_found")
			refused(t, s.Remove("b"), "not_found")
		})
	}
}

func TestArguments(t *testing.T) {
	_, s := newStore(t, secret.Keyring{})
	for _, name := range []string{"", "-a", "A", "a_b", "a.b", "../a", "é", "a b", "a\n", strings.Repeat("a", 65)} {
		_, _, err := s.Set(name, "hunter2")
		refused(t, err, "invalid")
		refused(t, s.Remove(name), "invalid")
	}
	for _, value := range []string{"", "\xff", strings.Repeat("x", secret.MaxValue+1)} {
		_, _, err := s.Set("a", value)
		refused(t, err, "invalid")
	}
	set(t, s, strings.Repeat("a", 64), strings.Repeat("x", secret.MaxValue))
}

func TestLostKey(t *testing.T) {
	m, s := newStore(t, secret.Keyring{})
	set(t, s, "a", "hunter2")
	_, other := newStore(t, secret.Keyring{})
	set(t, other, "a", "hunter2")
	key := read(t, m, "/h/secrets.key")
	for what, bad := range map[string][]byte{"missing": nil, "of another store": read(t, other.FS, "/h/secrets.key"), "damaged": []byte("x"), "long": bytes.Repeat(key, 3)} {
		if bad == nil {
			if err := m.Remove("/h/secrets.key"); err != nil {
				t.Fatal(err)
			}
		} else {
			m.WriteFile("/h/secrets.key", bad, 0o600)
		}
		before := read(t, m, "/h/secrets.json")
		_, err := get(s, "a")
		refused(t, err, "encryption_key")
		_, _, err = s.Set("b", "hunter2")
		refused(t, err, "encryption_key")
		if !bytes.Equal(read(t, m, "/h/secrets.json"), before) {
			t.Errorf("%s: the store was overwritten", what)
		}
		if now, err := vfs.ReadFile(m, "/h/secrets.key", 1<<10); bad == nil != errors.Is(err, fs.ErrNotExist) || !bytes.Equal(now, bad) {
			t.Errorf("%s: the key was overwritten", what)
		}
	}
	// A new start needs no key, but no secret may be left.
	if err := m.Remove("/h/secrets.key"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := s.Remove("a"); err != nil {
		t.Fatal(err)
	}
	set(t, s, "a", "again")
	if got, err := get(s, "a"); err != nil || got != "again" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestKeyring(t *testing.T) {
	t.Run("refuses", func(t *testing.T) {
		_, s := newStore(t, (&fake{err: errors.New("locked")}).keyring())
		if p := set(t, s, "a", "hunter2"); p.Kind != "file" || p.String() != "the key is in the file /h/secrets.key, because the keyring failed: locked" {
			t.Errorf("%s", p)
		}
	})
	t.Run("loses keys", func(t *testing.T) {
		k := (&fake{}).keyring()
		k.Set = func(string, string) error { return nil }
		_, s := newStore(t, k)
		if p := set(t, s, "a", "hunter2"); p.Kind != "file" || p.Refused == "" {
			t.Errorf("%+v", p)
		}
	})
	t.Run("only reads", func(t *testing.T) {
		k := (&fake{}).keyring()
		k.Set = func(string, string) error { return errors.New("read-only") }
		_, s := newStore(t, k)
		if p := set(t, s, "a", "hunter2"); p.Refused != "read-only" {
			t.Errorf("%+v", p)
		}
	})
	t.Run("panics", func(t *testing.T) {
		_, s := newStore(t, secret.Keyring{Set: func(string, string) error { panic("wrong type") }})
		if p := set(t, s, "a", "hunter2"); p.Kind != "file" || !strings.Contains(p.Refused, "wrong type") {
			t.Errorf("%+v", p)
		}
	})
	t.Run("fails later", func(t *testing.T) {
		f := &fake{keys: map[string]string{}}
		m, s := newStore(t, f.keyring())
		set(t, s, "a", "hunter2")
		before := read(t, m, "/h/secrets.json")
		good := maps.Clone(f.keys)
		for kind, spoil := range map[string]func(){
			"keyring":        func() { f.err = errors.New("locked") },
			"encryption_key": func() { clear(f.keys) },
		} {
			spoil()
			_, err := get(s, "a")
			refused(t, err, kind)
			_, _, err = s.Set("b", "hunter2")
			refused(t, err, kind)
			if !bytes.Equal(read(t, m, "/h/secrets.json"), before) {
				t.Error("the store was overwritten")
			}
			f.err, f.keys = nil, maps.Clone(good)
		}
		s.Keyring = secret.Keyring{}
		_, err := get(s, "a")
		refused(t, err, "keyring")
		if l, err := s.List(); err != nil || len(l.Secrets) != 1 {
			t.Errorf("List needs the key: %v", err)
		}
	})
	t.Run("hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{keys: map[string]string{}}
			_, s := newStore(t, f.keyring())
			set(t, s, "a", "hunter2")
			f.wait = make(chan bool)
			began := time.Now()
			_, err := get(s, "a")
			refused(t, err, "keyring")
			if took := time.Since(began); took != 15*time.Second {
				t.Errorf("it took %v", took)
			}
			if _, err = get(s, "a"); err == nil || !strings.Contains(err.Error(), "still waits") {
				t.Errorf("second request: %v", err)
			}
			close(f.wait)
			synctest.Wait()
			if got, err := get(s, "a"); err != nil || got != "hunter2" {
				t.Errorf("%q, %v", got, err)
			}
		})
	})
}

// TestSystemKeyring uses the library's keyring in memory.
func TestSystemKeyring(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
	t.Cleanup(keyring.MockInit)
	keyring.MockInit()
	if k := secret.System(func(string) string { return secret.KeyringOff }); k.Get != nil || k.Set != nil {
		t.Error("the environment does not disable the keyring")
	}
	for _, getenv := range []func(string) string{nil, func(string) string { return "" }} {
		_, s := newStore(t, secret.System(getenv))
		if p := set(t, s, "a", "hunter2"); p.Kind != "keyring" {
			t.Errorf("%+v", p)
		}
		if got, err := get(s, "a"); got != "hunter2" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	for _, c := range []struct {
		err     error
		refused string
	}{
		{&net.OpError{Op: "dial", Err: errors.New("no bus")}, ""},
		{errors.New("The name org.freedesktop.secrets was not provided by any .service files"), ""},
		{errors.New("unit is not activatable"), ""},
		{errors.New("locked"), "locked"},
	} {
		keyring.MockInitWithError(c.err)
		_, s := newStore(t, secret.System(nil))
		if p := set(t, s, "a", "hunter2"); p.Kind != "file" || p.Refused != c.refused {
			t.Errorf("%v: %+v", c.err, p)
		}
		if secret.System(nil).Set("id", "key") == nil {
			t.Errorf("%v: Set returns no error", c.err)
		}
	}
}

func TestPermissions(t *testing.T) {
	for _, file := range []string{"/h/secrets.json", "/h/secrets.key"} {
		m, s := newStore(t, secret.Keyring{})
		set(t, s, "a", "hunter2")
		m.Chmod(file, 0o640)
		_, err := get(s, "a")
		refused(t, err, "permission")
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), file) {
			t.Error(err)
		}
		_, _, err = s.Set("b", "hunter2")
		refused(t, err, "permission")
		m.Chmod(file, 0o600)
		if err := m.Rename(file, "/h/x"); err != nil {
			t.Fatal(err)
		}
		m.Symlink("/h/x", file)
		if _, err := get(s, "a"); !errors.Is(err, vfs.ErrNotRegular) {
			t.Errorf("a link: %v", err)
		}
	}
}

func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can change owners")
	}
	h := t.TempDir()
	s := &secret.Store{FS: vfs.OS{}, Home: h}
	set(t, s, "a", "hunter2")
	for _, file := range []string{secret.File, secret.KeyFile} {
		if err := os.Chown(filepath.Join(h, file), 12345, -1); err != nil {
			t.Fatal(err)
		}
		_, err := get(s, "a")
		refused(t, err, "permission")
		if err := os.Chown(filepath.Join(h, file), 0, -1); err != nil {
			t.Fatal(err)
		}
	}
}

// TestProcesses starts processes that each set a secret in a new store.
func TestProcesses(t *testing.T) {
	h := t.TempDir()
	const n = 12
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=s%d", setEnv, i), "CRABTALK_HOME="+h)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	group.Wait()
	s := &secret.Store{FS: vfs.OS{}, Home: h}
	for i := range n {
		name := fmt.Sprintf("s%d", i)
		if got, err := get(s, name); err != nil || got != "value of "+name {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
