package main

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/crmem/recalleval"
)

const tiny = "../../testdata/recall/tiny"

// TestPartsOf compares the nDCG@10 of rankings that have the relevant documents first, or
// last, and of bleve on a small set.
func TestPartsOf(t *testing.T) {
	s, err := recalleval.Load(func(name string) (io.ReadCloser, error) { return os.Open(name) }, tiny)
	if err != nil {
		t.Fatal(err)
	}
	parts := partsOf(s)
	if len(parts) != 2 {
		t.Fatalf("%d parts, want one for each group", len(parts))
	}
	perfect := make([][][]int, len(parts))
	for i, p := range parts {
		for _, grades := range p.grades {
			var list []int
			for grade := 9; grade >= 0; grade-- {
				for j, id := range p.ids {
					if grades[id] == grade {
						list = append(list, j)
					}
				}
			}
			perfect[i] = append(perfect[i], list)
		}
	}
	best, err := ndcg(parts, perfect)
	if err != nil || best < 0.9 || best > 1 {
		t.Errorf("perfect rankings: %v, %v", best, err)
	}
	_, ranked, err := bleveRank("", parts)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := ndcg(parts, ranked); err != nil || f < 0.5 || f > best {
		t.Errorf("bleve: %v, %v", f, err)
	}
	perfect[0][0] = []int{99}
	if _, err := ndcg(parts, perfect); err == nil {
		t.Error("a document that does not exist is ranked")
	}
	if _, err := ndcg(parts, perfect[:1]); err == nil {
		t.Error("rankings are missing")
	}
}

func TestPrintRecall(t *testing.T) {
	var b strings.Builder
	printRecall(&b, []string{"a", "b"}, []row{{"crabmem", []float64{0.5, 0.7}}, {"other 1.0", []float64{0.6, 0.1}}})
	const want = `    nDCG@10       a       b    mean
    crabmem   0.500  *0.700  *0.600
  other 1.0  *0.600   0.100   0.350
other 1.0 is ahead on a by 0.100
`
	if b.String() != want {
		t.Errorf("%s, want %s", b.String(), want)
	}
	if m := (&row{figures: []float64{1, 2}}).mean(); math.Abs(m-1.5) > 1e-9 {
		t.Errorf("mean %v", m)
	}
}

func TestMissingRanker(t *testing.T) {
	root := filepath.Dir(tiny)
	absent := ranker{"absent", "install it", func(string, []part) (string, [][][]int, error) { return "", nil, errMissing }}
	for _, require := range []bool{false, true} {
		if err := compareRecall(root, require, []ranker{absent}); (err != nil) != require {
			t.Errorf("require %v: error %v", require, err)
		}
	}
	failed := errors.New("failed")
	broken := ranker{"broken", "", func(string, []part) (string, [][][]int, error) { return "", nil, failed }}
	if err := compareRecall(root, false, []ranker{broken}); !errors.Is(err, failed) {
		t.Errorf("error %v, want %v", err, failed)
	}
	if err := compareRecall(t.TempDir(), false, nil); err == nil {
		t.Error("an empty directory has no test sets")
	}
}
