package hub

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

func testPackage(typ, name, version string) *Package {
	p := &Package{Resource: Resource{Manifest: Manifest{Name: name, Type: typ, Version: version, Description: "d"}, Source: "s"}, FilesRepo: "a/b", Ref: version}
	switch typ {
	case Skill:
		p.Files = []File{{Path: "SKILL.md", Data: []byte(skillText(name, version))}, {Path: "same", Data: []byte("same")}, {Path: "dir/" + version, Exec: true, Data: []byte("new " + version)}}
	case Workspace:
		p.Files = []File{{Path: "crabmem.toml", Data: []byte("# " + version)}, {Path: "agents/a.toml", Data: []byte("prompt = \"a\"\n")}}
	default:
		p.Files = []File{{Path: name + ".toml", Data: []byte("command = \"" + version + "\"\n")}}
	}
	return p
}

const crashDir = "/work/shop"

// memFiles returns the files below the directory of a machine, without those of the staging
// directory.
func memFiles(t *testing.T, m vfs.Tree, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	list, err := m.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		name := dir + "/" + e.Name()
		if strings.HasPrefix(e.Name(), "."+LockFile) {
			continue // a temporary file that a crash left
		}
		if e.IsDir() {
			maps.Copy(all, memFiles(t, m, name))
			continue
		}
		text, err := vfs.ReadFile(m, name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(name, crashDir+"/")] = string(text)
	}
	return all
}

// A change is a change of a root, and the resource that it is about.
type change struct {
	name   string
	before []*Package // installed
	do     func(*Root) error
	again  func(*Root) error // the next command
}

func changes() []change {
	install := func(p *Package, how How) func(*Root) error {
		return func(r *Root) error { return r.Install(p, how) }
	}
	remove := func(r *Root) error { _, err := r.Remove("x"); return err }
	other := install(testPackage(MCP, "other", "1"), Force)
	var list []change
	for _, typ := range []string{Skill, MCP} {
		one, two := testPackage(typ, "x", "1"), testPackage(typ, "x", "2")
		list = append(list,
			change{typ + " install", nil, install(one, New), other},
			change{typ + " upgrade", []*Package{one}, install(two, Upgrade), other},
			change{typ + " force", []*Package{one}, install(two, Force), other},
			change{typ + " remove", []*Package{one}, remove, nil})
	}
	return append(list, change{"workspace", nil, install(testPackage(Workspace, "x", "1"), New), nil})
}

// TestCrashes crashes each change at each call, with several outcomes of the unsynced changes.
// After the next change of the root, the files and the lock are those before or after.
func TestCrashes(t *testing.T) {
	states, calls, twice := 0, 0, 997 // one state in so many crashes again
	if os.Getenv("CRABMEM_CRASH") == "full" {
		twice = 41
	}
	for _, c := range changes() {
		start := faultfs.NewMem()
		if err := vfs.MkdirAll(start, crashDir, 0o755); err != nil {
			t.Fatal(err)
		}
		rootOf := func(m vfs.FS) *Root { return &Root{FS: m, Dir: crashDir} }
		for _, p := range c.before {
			if err := rootOf(start).Install(p, New); err != nil {
				t.Fatal(err)
			}
		}
		start = start.Kill()
		end := start.Kill()
		if err := c.do(rootOf(end)); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		next := func(m *faultfs.Mem) error {
			if c.again != nil {
				return c.again(rootOf(m))
			}
			err := c.do(rootOf(m)) // the same again, which ends in the new state only
			if err != nil && (strings.Contains(err.Error(), "not installed") || strings.Contains(err.Error(), "shop/x exists")) {
				err = nil
			}
			return err
		}
		old, done := start.Kill(), end.Kill()
		if err := errors.Join(next(old), next(done)); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		want := []map[string]string{memFiles(t, old, crashDir), memFiles(t, done, crashDir)}
		var check func(m *faultfs.Mem, where string)
		check = func(m *faultfs.Mem, where string) {
			t.Helper()
			states++
			if states%twice == 0 && !strings.Contains(where, "again") { // crash the next change, too
				for at := 1; ; at++ {
					m, reached := m.Kill(), false
					m.SetHook(func(call faultfs.Call) error {
						if call.N == at {
							reached = true
							for _, o := range crashOutcomes(m.Unsynced()) {
								check(m.Crash(o...), fmt.Sprintf("%s, again before call %d, %s %s", where, at, call.Op, call.Name))
							}
						}
						return nil
					})
					if err := next(m); err != nil || !reached {
						break
					}
				}
			}
			err := next(m)
			got := memFiles(t, m, crashDir)
			unlocked := c.name == "skill install" || c.name == "mcp install"
			if err == nil && !slices.ContainsFunc(want, func(w map[string]string) bool { return maps.Equal(w, got) }) {
				err = fmt.Errorf("files %v\nlock %s", slices.Sorted(maps.Keys(got)), got[LockFile])
			}
			if err == nil && unlocked { // the same command again ends in the new state
				if err = c.do(rootOf(m)); err != nil && strings.Contains(err.Error(), "it is installed from s") {
					err = nil
				}
			}
			if err != nil {
				t.Fatalf("%s: crash %s: %v", c.name, where, err)
			}
		}
		for at := 1; ; at++ {
			m := start.Kill()
			reached := false
			m.SetHook(func(call faultfs.Call) error {
				if call.N == at {
					reached = true
					for i, outcomes := range crashOutcomes(m.Unsynced()) {
						check(m.Crash(outcomes...), fmt.Sprintf("before call %d, %s %s, outcome %d", at, call.Op, call.Name, i))
					}
					check(m.Kill(), fmt.Sprintf("of the process before call %d, %s %s", at, call.Op, call.Name))
				}
				return nil
			})
			if err := c.do(rootOf(m)); err != nil {
				t.Fatal(err)
			}
			if !reached {
				break
			}
			calls++
		}
		for i, outcomes := range crashOutcomes(end.Unsynced()) {
			m := end.Crash(outcomes...)
			if err := next(m); err != nil || !maps.Equal(memFiles(t, m, crashDir), want[1]) {
				t.Errorf("%s: crash after the end, outcome %d: %v, %v", c.name, i, err, memFiles(t, m, crashDir))
			}
		}
	}
	t.Logf("%d calls, %d crash states", calls, states)
	if states < 500 {
		t.Errorf("only %d crash states", states)
	}
}

// crashOutcomes keeps no change, all, each alone, and all but each.
func crashOutcomes(list []faultfs.Change) (all [][]faultfs.Outcome) {
	fill := func(o faultfs.Outcome) []faultfs.Outcome { return slices.Repeat([]faultfs.Outcome{o}, len(list)) }
	all = append(all, fill(faultfs.Lost), fill(faultfs.Kept))
	for i := range list {
		alone, but := fill(faultfs.Lost), fill(faultfs.Kept)
		alone[i], but[i] = faultfs.Kept, faultfs.Lost
		all = append(all, alone, but)
	}
	return all
}

// TestErrors fails each call of each change once. The change reports the error, and after the
// next change the state is the old or the new one.
func TestErrors(t *testing.T) {
	failed := 0
	for _, c := range changes() {
		for at := 1; ; at++ {
			m := faultfs.NewMem()
			if err := vfs.MkdirAll(m, crashDir, 0o755); err != nil {
				t.Fatal(err)
			}
			r := &Root{FS: m, Dir: crashDir}
			for _, p := range c.before {
				if err := r.Install(p, New); err != nil {
					t.Fatal(err)
				}
			}
			n, fail := 0, errors.New("injected")
			m.SetHook(func(faultfs.Call) error {
				if n++; n == at {
					return fail
				}
				return nil
			})
			err := c.do(r)
			m.SetHook(nil)
			if n < at {
				break
			}
			failed++
			list, lerr := r.Installed()
			if lerr != nil {
				t.Fatalf("%s: call %d: %v", c.name, at, lerr)
			}
			for _, e := range list {
				if changed, cerr := r.Changed(e); cerr != nil || len(changed) > 0 && c.name != "skill remove" && c.name != "mcp remove" {
					t.Errorf("%s: call %d (%v): %v, %v", c.name, at, err, changed, cerr)
				}
			}
			if err = c.do(r); err != nil && !strings.Contains(err.Error(), "installed") && !strings.Contains(err.Error(), "exists") {
				t.Errorf("%s: call %d, then again: %v", c.name, at, err)
			}
		}
	}
	t.Logf("%d calls failed", failed)
}
