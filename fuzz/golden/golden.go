// Package golden compares long test results with compressed files.
package golden

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Reports collects the outcomes of cases. It writes an outcome once for consecutive
// cases with equal outcomes.
type Reports struct {
	b    strings.Builder
	last string
	n    int
}

// Add adds the outcome of a case.
func (r *Reports) Add(title, outcome string) {
	r.n++
	outcome = "\t" + strings.ReplaceAll(strings.TrimSuffix(outcome, "\n"), "\n", "\n\t") + "\n"
	if outcome != r.last {
		r.b.WriteString(r.last)
	}
	r.b.WriteString(title + "\n")
	r.last = outcome
}

// Addf formats an outcome and adds it.
func (r *Reports) Addf(title, format string, args ...any) { r.Add(title, fmt.Sprintf(format, args...)) }

// Compare compares the outcomes with a compressed file. With -update it writes
// the file.
func (r *Reports) Compare(t *testing.T, file string) {
	t.Helper()
	got := r.b.String() + r.last
	if *update {
		if err := write(file, got); err != nil {
			t.Fatal(err)
		}
	}
	want, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	if want != got {
		t.Errorf("outcomes differ from %s (-want +got); run with -update to rewrite it:\n%s", file, difference(want, got))
	}
	t.Logf("%d outcomes", r.n)
}

// difference returns a diff that starts shortly before the first difference.
func difference(want, got string) string {
	const most = 200 // maximum number of lines
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	at := 0
	for at < min(len(w), len(g)) && w[at] == g[at] {
		at++
	}
	from := max(0, at-10)
	w, g = w[from:min(len(w), from+most)], g[from:min(len(g), from+most)]
	return fmt.Sprintf("line %d:\n%s", from+1, cmp.Diff(w, g))
}

func write(file, text string) error {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o666)
}

func read(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(z)
	return string(text), err
}
