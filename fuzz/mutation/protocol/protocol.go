// Package protocol changes the source of a protocol so that one rule is broken, and
// requires that a test fails. It does not change the working tree. The go command
// compiles changed copies of the files.
package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// Mutant is the program with one rule broken.
type Mutant struct {
	Name  string
	Test  string // test of the calling package that must fail
	Edits []Edit
}

// Edit replaces a text that occurs once in a file. It contains the path of the file
// in the module, the old text, and the new text.
type Edit = [3]string

// Run checks that the edits of all mutants apply. If execute is set, it runs the
// test of each mutant with env added to the environment, two tests at a time. It
// fails t for each test that passes. CRABMEM_CRASH_SLICE=n limits this to one in n
// mutants, each with its whole test. root is the path of the module's root, relative
// to the calling package.
func Run[M ~struct {
	Name, Test string
	Edits      []Edit
}](t *testing.T, root string, broken []M, execute bool, env ...string) {
	mutants := make([]Mutant, len(broken))
	for i, m := range broken {
		mutants[i] = Mutant(m)
	}
	if len(mutants) < 12 {
		t.Errorf("%d mutants, want at least 12", len(mutants))
	}
	names := map[string]bool{}
	for _, m := range mutants {
		if _, err := m.apply(root); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		if names[m.Name] {
			t.Errorf("two mutants have the name %q", m.Name)
		}
		names[m.Name] = true
	}
	if !execute || t.Failed() {
		t.Logf("mutants: the edits of all %d apply; CRABMEM_CRASH=full runs them", len(mutants))
		return
	}
	if n, _ := strconv.Atoi(os.Getenv("CRABMEM_CRASH_SLICE")); n > 1 {
		chosen := mutants[:0]
		for i := 0; i < len(mutants); i += n {
			chosen = append(chosen, mutants[i])
		}
		mutants = chosen
	}
	verdicts := make([]string, len(mutants))
	next := make(chan int)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := range next {
				verdicts[i] = mutants[i].verdict(t, root, env)
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
		fmt.Fprintf(w, "%s\t%s\t%s\n", m.Name, m.Test, verdicts[i])
		if strings.HasPrefix(verdicts[i], "killed") {
			killed++
		}
	}
	w.Flush()
	t.Logf("mutants killed: %d of %d\n%s", killed, len(mutants), table.String())
}

// verdict runs the mutant's test and returns a description of the result.
func (m *Mutant) verdict(t *testing.T, root string, env []string) string {
	start := time.Now()
	out, err := m.run(root, t.TempDir(), env)
	verdict := "DID NOT RUN"
	switch {
	case err == nil:
		verdict = "SURVIVED"
	case strings.Contains(out, "--- FAIL: "+m.Test):
		return fmt.Sprintf("killed in %.1fs", time.Since(start).Seconds())
	}
	t.Errorf("%s: %s:\n%s", m.Name, verdict, out)
	return verdict
}

// apply returns the changed files.
func (m *Mutant) apply(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, e := range m.Edits {
		file, old := e[0], []byte(e[1])
		b, ok := files[file]
		if !ok {
			var err error
			if b, err = os.ReadFile(filepath.Join(root, file)); err != nil {
				return nil, err
			}
		}
		if n := bytes.Count(b, old); n != 1 {
			return nil, fmt.Errorf("%s contains this text %d times, want once:\n%s", file, n, old)
		}
		files[file] = bytes.Replace(b, old, []byte(e[2]), 1)
	}
	return files, nil
}

// run runs the mutant's test with the changed files in place of the real files. It
// returns the output.
func (m *Mutant) run(root, dir string, env []string) (string, error) {
	files, err := m.apply(root)
	if err != nil {
		return "", err
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, b := range files {
		real, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		changed := filepath.Join(dir, fmt.Sprint(len(overlay.Replace), filepath.Base(name)))
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
	cmd := exec.Command("go", "test", "-overlay", list, "-vet=off", "-count=1", "-timeout=20m", "-run", "^"+m.Test+"$", ".")
	cmd.Env = append(append(os.Environ(), "CRABMEM_CRASH_SLICE="), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
