package crash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// mutant is the store with one rule of its protocol broken.
type mutant struct {
	name  string
	test  string // that must fail
	edits []edit
}

// edit replaces a text that occurs once in a file.
type edit struct{ file, old, new string }

const commitPoint = `	if err := s.log.Datasync(); err != nil { // ◄ the commit point: when this returns nil, the group is acknowledged
		return s.unknown(err)
	}
`

const writeLog = `	if err := writeAll(s.log, g.buf); err != nil {
		return s.undo(g.start, err)
	}
`

var mutants = []mutant{
	{"no sync of the log", "TestEnumerate", []edit{{"crmem/commit.go", commitPoint, ""}}},
	{"acknowledge before the sync", "TestEnumerate", []edit{{"crmem/commit.go", writeLog + commitPoint, `	if err := s.log.Datasync(); err != nil {
		return s.unknown(err)
	}
` + writeLog}}},
	{"retry a failed sync", "TestErrors", []edit{{"crmem/commit.go",
		"if err := s.log.Datasync(); err != nil { // ◄", "if err := s.log.Datasync(); err != nil && s.log.Datasync() != nil { // ◄"}}},
	{"go on after a failed sync", "TestErrors", []edit{{"crmem/commit.go", `	if s.stopped == nil {
		s.stopped = err
	}
	return err`, "\treturn err"}}},
	{"RAM before the sync", "TestErrors", []edit{
		{"crmem/commit.go", `	} else if s.path != "" {
		g.err = s.write(g)
	}
`, `	} else {
		s.wmu.Lock()
		s.publish(g)
		s.wmu.Unlock()
		if s.path != "" {
			g.err = s.write(g)
		}
	}
`},
		{"crmem/commit.go", "\ts.publish(g)\n\tif len(g.buf)", "\tif len(g.buf)"}}},
	{"a batch without its flag", "TestEnumerate", []edit{{"crmem/commit.go", `		if i < len(st.effects)-1 {
			typ |= frameMore
		}
`, ""}}},
	{"not applied, and not cut off", "TestErrors", []edit{{"crmem/commit.go", `	if terr := s.log.Truncate(start); terr != nil {
		return s.unknown(errors.Join(err, terr))
	}
`, ""}}},
	{"unsynced truncation", "TestErrors", []edit{{"crmem/commit.go", `	if serr := s.log.Datasync(); serr != nil {
		return s.unknown(errors.Join(err, serr))
	}
`, ""}}},
	{"no sync of the temporary file", "TestEnumerate", []edit{
		{"crmem/checkpoint.go", `	if err := p.Sync(); err != nil {
		return nil, dig, err
	}
`, ""},
		{"crmem/checkpoint.go", "p.Commit()", "errors.Join(p.Close(), s.fs.Rename(p.Name(), s.path))"}}},
	{"no sync of the directory", "TestEnumerate", []edit{{"crmem/checkpoint.go", `	if err := s.fs.SyncDir(dirOf(s.path)); err != nil {
		return s.fail(err)
	}
`, ""}}},
	{"no sync of the new log", "TestEnumerate", []edit{{"crmem/checkpoint.go", `	if err := vfs.Replace(s.fs, name, 0o600, bytesTo(b)); err != nil {
		return err
	}
	f, err :=`, `	p, err := s.fs.Pending(name, 0o600)
	if err != nil {
		return err
	}
	_, err = p.Write(b)
	if err := errors.Join(err, p.Close(), s.fs.Rename(p.Name(), name), s.fs.SyncDir(dirOf(name))); err != nil {
		return err
	}
	f, err :=`}}},
	{"rename before the checkpoint frame", "TestEnumerate", []edit{{"crmem/checkpoint.go", `	if err := s.announce(dig, c.seq); err != nil {
		return errors.Join(err, p.Discard())
	}
	if err := s.swap(p, dig); err != nil {
		return err
	}
`, `	if err := s.swap(p, dig); err != nil {
		return err
	}
	if err := s.announce(dig, c.seq); err != nil {
		return err
	}
`}}},
	{"a checkpoint drops what came during it", "TestEnumerate", []edit{{"crmem/checkpoint.go",
		"s.newLog(c.seq, frames)", "s.newLog(s.w.seq-1, nil)"}}},
	{"no sync of names in Replace", "TestEnumerate", []edit{{"crmem/vfs/vfs.go", "return t.SyncDir(filepath.Dir(name))", "return nil"}}},
	{"replay by position", "TestEnumerate", []edit{{"crmem/recover.go", `	for i := range v.scan.frames {
		f := &v.scan.frames[i]
		if f.typ == frameCheckpoint || f.seq <= seq {
`, `	start := 0
	for i := range v.scan.frames {
		if f := &v.scan.frames[i]; f.typ == frameCheckpoint && readDigest(f.payload) == v.dig {
			start = i
		}
	}
	for i := range v.scan.frames {
		f := &v.scan.frames[i]
		if f.typ == frameCheckpoint || i < start {
`}}},
	{"replay what the snapshot has", "TestEnumerate", []edit{{"crmem/recover.go",
		"if f.typ == frameCheckpoint || f.seq <= seq {", "if f.typ == frameCheckpoint {"}}},
	{"no check of sequence numbers", "TestSequence", []edit{{"crmem/wal.go", "if f.seq != seq {", "if false {"}}},
	{"skip a bad frame", "TestEnumerate", []edit{
		{"crmem/wal.go", `			s.why = why
			break
`, `			s.why = why
			off++
			continue
`},
		{"crmem/wal.go", "if f.prev != w.prev {", "if false {"},
		{"crmem/wal.go", "if f.seq != seq {", "if false {"}}},
	{"rot is a tear", "TestRotRefused", []edit{{"crmem/wal.go", "s.verdict = rotten", "s.verdict = torn"}}},
	{"trust a dirty reopen", "TestErrors", []edit{{"crmem/recover.go",
		"if dirty || len(v.scan.frames) > 0 && !trusted || v.scan.verdict == torn {", "if _ = trusted; v.scan.verdict == torn {"}}},
	{"no copy of a torn tail", "TestEnumerate", []edit{{"crmem/recover.go",
		`name, err := quarantine(s.fs, fmt.Sprintf("%s%s%d", s.path, tornSuffix, w.seq), tail)`, `name, err := "nowhere", error(nil)`}}},
	{"leave temporary files", "TestEnumerate", []edit{{"crmem/recover.go", "s.fs.Remove(filepath.Join(dir, e.Name()))", "_ = dir"}}},
	{"no lock", "TestLocked", []edit{{"crmem/lock.go", "s.fs.Lock(path)", "s.fs.Lock(fmt.Sprint(path, rand.Uint64()))"}}},
}

const module = "../.."

// apply returns the changed files.
func (m *mutant) apply() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, e := range m.edits {
		b, ok := files[e.file]
		if !ok {
			var err error
			if b, err = os.ReadFile(filepath.Join(module, e.file)); err != nil {
				return nil, err
			}
		}
		if n := bytes.Count(b, []byte(e.old)); n != 1 {
			return nil, fmt.Errorf("%s has this text %d times, want once:\n%s", e.file, n, e.old)
		}
		files[e.file] = bytes.Replace(b, []byte(e.old), []byte(e.new), 1)
	}
	return files, nil
}

// TestMutants breaks the protocol and runs the tests: each mutant must fail
// the one that it names. It takes a build each, and so runs with
// CRABMEM_CRASH=full; otherwise only the edits are checked.
func TestMutants(t *testing.T) {
	if len(mutants) < 12 {
		t.Errorf("%d mutants", len(mutants))
	}
	names := map[string]bool{}
	for _, m := range mutants {
		if _, err := m.apply(); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if names[m.name] {
			t.Errorf("two mutants are called %q", m.name)
		}
		names[m.name] = true
	}
	if !full || t.Failed() {
		t.Logf("mutants: the edits of all %d apply; CRABMEM_CRASH=full runs them", len(mutants))
		return
	}
	verdicts := make([]string, len(mutants))
	next := make(chan int)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := range next {
				start := time.Now()
				out, err := mutants[i].run(t.TempDir())
				switch {
				case err == nil:
					verdicts[i] = "SURVIVED"
				case strings.Contains(out, "--- FAIL: "+mutants[i].test):
					verdicts[i] = fmt.Sprintf("killed in %.1fs", time.Since(start).Seconds())
				default:
					verdicts[i] = "DID NOT RUN"
				}
				if !strings.HasPrefix(verdicts[i], "killed") {
					t.Errorf("%s: %s:\n%s", mutants[i].name, verdicts[i], out)
				}
			}
		})
	}
	for i := range mutants {
		next <- i
	}
	close(next)
	wg.Wait()
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	killed := 0
	for i, m := range mutants {
		fmt.Fprintf(w, "%s\t%s\t%s\n", m.name, m.test, verdicts[i])
		if strings.HasPrefix(verdicts[i], "killed") {
			killed++
		}
	}
	w.Flush()
	t.Logf("mutants killed: %d of %d\n%s", killed, len(mutants), table.String())
}

// run runs the mutant's test with the changed files in the place of the real.
func (m *mutant) run(dir string) (string, error) {
	files, err := m.apply()
	if err != nil {
		return "", err
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, b := range files {
		real, err := filepath.Abs(filepath.Join(module, name))
		if err != nil {
			return "", err
		}
		changed := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(changed, b, 0o600); err != nil {
			return "", err
		}
		overlay.Replace[real] = changed
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, b, 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "test", "-overlay", list, "-vet=off", "-count=1", "-timeout=180s", "-run", "^"+m.test+"$", ".")
	cmd.Env = append(os.Environ(), "CRABMEM_CRASH=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
