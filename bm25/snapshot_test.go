package bm25

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"crabmem/bm25/analysis"
)

// TestSnapshotDoesNotChange writes a snapshot while documents are added and removed. It
// is what WriteTo wrote before. The race detector checks that nothing is shared.
func TestSnapshotDoesNotChange(t *testing.T) {
	SetTailDocs(t, 16)
	for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
		rng := rand.New(rand.NewPCG(1, 1))
		doc := func(id uint64) Doc {
			return Doc{ID: id, Fields: []string{fmt.Sprintf("deploying word%d to camelCase%d", rng.IntN(500), rng.IntN(500))}}
		}
		x := New(a)
		for id := range uint64(1000) {
			x.Add(doc(id))
		}
		for id := uint64(0); id < 1000; id += 7 {
			x.Remove(id)
		}
		var want bytes.Buffer
		if _, err := x.WriteTo(&want); err != nil {
			t.Fatal(err)
		}
		s := x.Snapshot()
		var wg sync.WaitGroup
		wg.Go(func() {
			for id := range uint64(3000) {
				x.Remove(id)
				x.Add(doc(id))
			}
		})
		for range 5 {
			var got bytes.Buffer
			if _, err := s.WriteTo(&got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Fatalf("%v: the snapshot changed", a)
			}
		}
		wg.Wait()
		var got bytes.Buffer
		if _, err := s.WriteTo(&got); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Fatalf("%v: the snapshot changed: %v", a, err)
		}
	}
}
