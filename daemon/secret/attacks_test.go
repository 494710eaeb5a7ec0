package secret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/errtable"
	"crabmem/daemon/secret"
)

// edit changes the JSON of a store.
func edit(t *testing.T, text []byte, change func(map[string]any)) []byte {
	t.Helper()
	var v struct {
		Version any              `json:"version"`
		ID      any              `json:"id"`
		Key     any              `json:"key"`
		Check   any              `json:"check"`
		Secrets []map[string]any `json:"secrets"`
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"version": v.Version, "id": v.ID, "key": v.Key, "check": v.Check, "secrets": v.Secrets}
	change(all)
	var b strings.Builder
	b.WriteString("{\n")
	for i, k := range []string{"version", "id", "key", "check"} {
		j, _ := json.Marshal(all[k])
		fmt.Fprintf(&b, "  %q: %s,\n", []string{"version", "id", "key", "check"}[i], j)
	}
	b.WriteString("  \"secrets\": [\n")
	list := all["secrets"].([]map[string]any)
	for i, r := range list {
		comma := ","
		if i == len(list)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, "    {\n      \"name\": %q,\n      \"set_at\": %q,\n      \"value\": %q\n    }%s\n", r["name"], r["set_at"], r["value"], comma)
	}
	b.WriteString("  ]\n}\n")
	return []byte(b.String())
}

// TestAttacks changes files of a store. Open or Get must fail, and Set must not
// overwrite the file if its header is wrong.
func TestAttacks(t *testing.T) {
	records := func(v map[string]any) []map[string]any { return v["secrets"].([]map[string]any) }
	for _, c := range []struct {
		name, kind string
		change     func(v map[string]any)
		record     bool // only the record is wrong
	}{
		{"swapped values", "format", func(v map[string]any) {
			r := records(v)
			r[0]["value"], r[1]["value"] = r[1]["value"], r[0]["value"]
		}, true},
		{"renamed record", "format", func(v map[string]any) { records(v)[0]["name"] = "aa" }, true},
		{"another time", "format", func(v map[string]any) { records(v)[0]["set_at"] = "2026-11-23T09:30:16Z" }, true},
		{"order", "format", func(v map[string]any) { r := records(v); r[0], r[1] = r[1], r[0] }, false},
		{"name", "format", func(v map[string]any) { records(v)[0]["name"] = "A/../b" }, false},
		{"time", "format", func(v map[string]any) { records(v)[0]["set_at"] = "2026-11-23T09:30:15+00:00" }, false},
		{"empty value", "format", func(v map[string]any) { records(v)[0]["value"] = "" }, false},
		{"version 0", "format", func(v map[string]any) { v["version"] = 0 }, false},
		{"newer version", "format", func(v map[string]any) { v["version"] = 2 }, false},
		{"id", "encryption_key", func(v map[string]any) { v["id"] = strings.Repeat("0", 32) }, false},
		{"bad id", "format", func(v map[string]any) { v["id"] = "../../x" }, false},
		{"check", "encryption_key", func(v map[string]any) { v["check"] = strings.Repeat("A", 37) + "A==" }, false},
		{"key place", "keyring", func(v map[string]any) { v["key"] = "keyring" }, false},
		{"unknown place", "format", func(v map[string]any) { v["key"] = "cloud" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, s := newStore(t, secret.Keyring{})
			set(t, s, "a", "hunter2 a")
			set(t, s, "b", "hunter2 b")
			text := edit(t, read(t, m, "/h/secrets.json"), func(map[string]any) {})
			if !bytes.Equal(text, read(t, m, "/h/secrets.json")) {
				t.Fatal("edit changes the text")
			}
			text = edit(t, text, c.change)
			m.WriteFile("/h/secrets.json", text, 0o600)
			name := "a"
			if c.name == "renamed record" {
				name = "aa"
			}
			_, err := get(s, name)
			refused(t, err, c.kind)
			if c.record {
				if got, err := get(s, "b"); c.name != "swapped values" && (err != nil || got != "hunter2 b") {
					t.Errorf("another record: %q, %v", got, err)
				}
				return
			}
			_, _, err = s.Set("c", "hunter2 c")
			refused(t, err, c.kind)
			if got := read(t, m, "/h/secrets.json"); !bytes.Equal(got, text) {
				t.Errorf("the file was overwritten:\n%s", got)
			}
		})
	}
}

// TestDamage changes each byte of the file and of the key. No value may change.
func TestDamage(t *testing.T) {
	m, s := newStore(t, secret.Keyring{})
	set(t, s, "a", "hunter2 a")
	set(t, s, "b", "hunter2 b")
	check := func(what string) {
		t.Helper()
		v, err := s.Open()
		if err != nil {
			refused(t, err, errtable.Find(err).Kind)
			return
		}
		for _, name := range v.Names() {
			if got, err := v.Get(name); err == nil && got != "hunter2 "+name {
				t.Fatalf("%s: %s is %q", what, name, got)
			}
		}
	}
	for _, file := range []string{"/h/secrets.json", "/h/secrets.key"} {
		text := read(t, m, file)
		for i := range text {
			bad := bytes.Clone(text)
			bad[i] ^= 1 << (i % 8)
			m.WriteFile(file, bad, 0o600)
			check(fmt.Sprintf("%s, byte %d", file, i))
			m.WriteFile(file, text[:i], 0o600)
			check(fmt.Sprintf("%s, %d bytes", file, i))
		}
		m.WriteFile(file, text, 0o600)
	}
	if _, err := get(s, "a"); err != nil {
		t.Error(err)
	}
}

// TestCrash interrupts Set at each call, by a kill and by power cuts. The store must
// contain the old or the new secrets, and an acknowledged secret.
func TestCrash(t *testing.T) {
	states := 0
	for _, first := range []bool{true, false} {
		for n := 1; ; n++ {
			m, s := newStore(t, secret.Keyring{})
			if !first {
				set(t, s, "a", "old")
			}
			var images []*faultfs.Mem
			last, ended := m.Calls()+n, true
			m.Hook = func(c faultfs.Call) error {
				if c.N == last {
					ended = false
					images = append(images, m.Kill())
					changes := m.Unsynced()
					for _, o := range []faultfs.Outcome{faultfs.Lost, faultfs.Kept, faultfs.Cut(1)} {
						all := slices.Repeat([]faultfs.Outcome{o}, len(changes))
						images = append(images, m.Crash(all...))
						for i := range all {
							one := slices.Repeat([]faultfs.Outcome{faultfs.Lost}, len(changes))
							one[i] = o
							images = append(images, m.Crash(one...))
						}
					}
				}
				return nil
			}
			if _, _, err := s.Set("a", "new"); err != nil {
				t.Fatal(err)
			}
			m.Hook = nil
			if ended {
				images = append(images, m.Crash())
			}
			for _, image := range images {
				states++
				s := &secret.Store{FS: image, Home: "/h"}
				got, err := get(s, "a")
				switch {
				case got == "new", got == "old" && !ended:
				case first && !ended && errtable.Find(err).Kind == "not_found":
				default:
					t.Fatalf("first %v, call %d, ended %v: %q, %v", first, n, ended, got, err)
				}
				set(t, s, "b", "next")
				if got, err := get(s, "b"); err != nil || got != "next" {
					t.Fatalf("after recovery: %q, %v", got, err)
				}
			}
			if ended {
				break
			}
		}
	}
	t.Logf("secrets: %d crash states", states)
}

// FuzzStore reads any file as a store with a valid key. It must return an error or
// the stored value, and not panic.
func FuzzStore(f *testing.F) {
	m, s := newStore(f, secret.Keyring{})
	set(f, s, "a", "hunter2")
	text, key := read(f, m, "/h/secrets.json"), read(f, m, "/h/secrets.key")
	f.Add(text)
	f.Add([]byte("{}"))
	f.Add([]byte(`{"version":2}`))
	f.Add(bytes.Replace(text, []byte(`"name": "a"`), []byte(`"name": "b"`), 1))
	f.Fuzz(func(t *testing.T, text []byte) {
		m := faultfs.NewMem()
		if err := vfs.MkdirAll(m, "/h", 0o700); err != nil {
			t.Fatal(err)
		}
		m.WriteFile("/h/secrets.json", text, 0o600)
		m.WriteFile("/h/secrets.key", key, 0o600)
		s := &secret.Store{FS: m, Home: "/h"}
		list, err := s.List()
		v, openErr := s.Open()
		if err != nil {
			if openErr == nil || errtable.Find(err).Kind == errtable.Failed {
				t.Fatalf("List: %v; Open: %v", err, openErr)
			}
			return
		}
		if openErr == nil {
			for _, name := range v.Names() {
				if got, err := v.Get(name); err == nil && (name != "a" || got != "hunter2") {
					t.Fatalf("%s is %q", name, got)
				}
			}
		}
		if len(list.Secrets) > 0 {
			if err := s.Remove(list.Secrets[0].Name); err != nil {
				t.Fatal(err)
			}
			if _, err := s.List(); err != nil {
				t.Fatalf("List after Remove: %v", err)
			}
		}
	})
}

// TestUnreadableFilesSayWhy opens files of newer programs and truncated files.
func TestUnreadableFilesSayWhy(t *testing.T) {
	m, s := newStore(t, secret.Keyring{})
	set(t, s, "a", "hunter2 a")
	text := string(read(t, m, "/h/secrets.json"))
	for _, c := range []struct{ text, want string }{
		{strings.Replace(text, `"version": 1`, `"version": 2`, 1), "version 2 is newer"},
		{`{"version": 2, "id": 7, "secrets": {}}`, "version 2 is newer"},
		{text[:len(text)-3], "truncated"},
		{strings.Replace(text, `"secrets": [`, `"secrets": [7, `, 1), "not a store of secrets"},
	} {
		m.WriteFile("/h/secrets.json", []byte(c.text), 0o600)
		_, err := get(s, "a")
		if refused(t, err, "format"); !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n%v, want %s", c.text, err, c.want)
		}
	}
}
