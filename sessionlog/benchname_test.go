package sessionlog

import (
	"path/filepath"
	"testing"
)

// BenchmarkNameCheck measures the cost that S27 adds to a write.
func BenchmarkNameCheck(b *testing.B) {
	d, err := OpenDir(filepath.Join(b.TempDir(), "sessions"), nil)
	if err != nil {
		b.Fatal(err)
	}
	l, err := d.Create(Meta{Agent: "crab", CreatedBy: "user"})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	b.ReportAllocs()
	for b.Loop() {
		if err := l.check(l.size); err != nil {
			b.Fatal(err)
		}
	}
}
