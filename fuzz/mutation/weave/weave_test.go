package weave

import (
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the lists of mutants in testdata")

// TestKinds compares the mutants of a package with all kinds to a list.
func TestKinds(t *testing.T) {
	packages, err := Load("../../..", "./fuzz/mutation/testdata/kinds")
	if err != nil {
		t.Fatal(err)
	}
	p := packages[0]
	mutants, err := p.Find()
	if err != nil {
		t.Fatal(err)
	}
	var list strings.Builder
	ids := map[*Mutant]int{}
	names := map[string]bool{}
	for i, m := range mutants {
		ids[m] = i + 1
		if names[m.ID()] {
			t.Errorf("two mutants have the ID %s", m.ID())
		}
		names[m.ID()] = true
		fmt.Fprintf(&list, "%d %s: %s\n\t- %s\n\t+ %s\n", m.Line, m.Func, m.Kind, m.Old, m.New)
	}
	const file = "../testdata/kinds/mutants.txt"
	if *update {
		if err := os.WriteFile(file, []byte(list.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if list.String() != string(want) {
		t.Errorf("the mutants differ from %s:\n%s", file, list.String())
	}
	// All mutants must compile together.
	for path, text := range p.Source(ids) {
		fset := token.NewFileSet()
		if _, err := parser.ParseFile(fset, path, text, 0); err != nil {
			t.Errorf("%v", err)
		}
	}
	if bad := p.check(mutants); len(bad) > 0 {
		t.Errorf("%d mutants do not compile", len(bad))
	}
}
