package main

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"crabmem/bench/measure"
	"crabmem/crmem"
	"crabmem/testdata"
)

// changesOf measures how long package crmem reads the changes of one entry, all changes,
// and earlier states, from a long history, and the size of the history.
func changesOf(f *flag.FlagSet) func(*measure.Limits) error {
	n := f.Int("n", 1_000_000, "number of changes")
	names := f.Int("names", 100_000, "number of entries")
	dir := f.String("dir", "", "write to a new directory in this `directory` (default: the temporary directory)")
	return func(t *measure.Limits) error {
		return inTemp(*dir, func(dir string) error {
			path := filepath.Join(dir, "changes.db")
			text, err := english()
			if err != nil {
				return err
			}
			if _, err := writeChanges(path, *n, *names, text); err != nil {
				return err
			}
			if err := readChanges(t, path, *n, *names); err != nil {
				return err
			}
			if err := asOf(t, path, *n); err != nil {
				return err
			}
			return historySizes(t, dir, *n/10)
		})
	}
}

// english returns a function that returns random excerpts of 500 bytes of the sample
// brain.
func english() (func() string, error) {
	var text strings.Builder
	err := fs.WalkDir(testdata.Brain, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := testdata.Brain.ReadFile(path)
		text.WriteString(strings.ToValidUTF8(string(b), ""))
		return err
	})
	all := text.String()
	r := rand.New(rand.NewPCG(1, 1))
	return func() string { return strings.ToValidUTF8(all[r.IntN(len(all)-500):][:500], " ") }, err
}

// random returns a function that returns 500 random characters of base64.
func random() func() string {
	r := rand.New(rand.NewPCG(1, 2))
	return func() string {
		b := make([]byte, 375)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return base64.StdEncoding.EncodeToString(b)
	}
}

// historySizes measures how much compression reduces the segments of n changes.
func historySizes(t *measure.Limits, dir string, n int) error {
	text, err := english()
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name    string
		content func() string
		most    float64
	}{{"English text", text, 0.65}, {"random base64", random(), 0.9}} {
		fmt.Printf("%s: ", c.name)
		size, err := writeChanges(filepath.Join(dir, strings.ReplaceAll(c.name, " ", "-")+".db"), n, n/10, c.content)
		if err != nil {
			return err
		}
		t.Most("segments of "+c.name+", share of uncompressed", float64(size.disk)/float64(size.content), c.most, "")
	}
	return nil
}

// segmentSizes contains the bytes of the files of all segments, and of their contents.
type segmentSizes struct{ disk, content int64 }

// writeChanges creates a store with n changes of notes, in batches of 1000. A
// checkpoint after 15 batches of 500 bytes fills a segment.
func writeChanges(path string, n, names int, content func() string) (size segmentSizes, err error) {
	s, err := crmem.Open(path, &crmem.Options{LogLimit: 1 << 40, CheckpointOnClose: crmem.CheckpointNever})
	if err != nil {
		return size, err
	}
	defer s.Close() // the second call has no effect
	start := time.Now()
	var ops []crmem.Op
	for i := range n {
		if i < names {
			ops = append(ops, crmem.Add{Name: name(i), Content: content()})
		} else {
			ops = append(ops, crmem.Update{Name: name(i * 7919 % names), Content: content()})
		}
		if len(ops) == 1000 || i == n-1 {
			if err := s.Apply(ops...); err != nil {
				return size, err
			}
			ops = ops[:0]
			if (i+1)%15000 == 0 {
				if err := s.Checkpoint(); err != nil {
					return size, err
				}
			}
		}
	}
	st := s.Stats()
	if err := s.Close(); err != nil {
		return size, err
	}
	took := time.Since(start)
	files, err := os.ReadDir(path + "-history")
	if err != nil {
		return size, err
	}
	sizes := map[string]int64{}
	for _, e := range files {
		fi, err := e.Info()
		if err != nil {
			return size, err
		}
		ext := filepath.Ext(e.Name())
		sizes[ext] += fi.Size()
		switch ext {
		case ".log":
			size.content += fi.Size()
		case ".zst":
			n, err := contentSize(filepath.Join(path+"-history", e.Name()))
			if err != nil {
				return size, err
			}
			size.content += n
		}
	}
	size.disk = sizes[".log"] + sizes[".zst"]
	fmt.Printf("%d changes of %d entries in %.1f s; snapshot %.1f MB, log %.1f MB, segments %.1f MB (%.1f MB uncompressed), indexes %.1f MB, bases %.1f MB\n\n", n, names, took.Seconds(),
		float64(st.SnapshotBytes)/1e6, float64(st.LogBytes)/1e6, float64(size.disk)/1e6, float64(size.content)/1e6, float64(sizes[".idx"])/1e6, float64(sizes[".crmem"])/1e6)
	return size, nil
}

// contentSize returns the size of what a zstd file decodes to.
func contentSize(name string) (int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	d, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return 0, err
	}
	defer d.Close()
	return io.Copy(io.Discard, d)
}

// readChanges measures ChangesOf and Changes of a store.
func readChanges(t *measure.Limits, path string, n, names int) error {
	s, err := crmem.Open(path, &crmem.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer s.Close()
	found, all := 0, 0
	next := 0
	took, err := measure.Fastest(9, func() error {
		found = 0
		next += names / 11
		for _, err := range s.ChangesOf(name(next % names)) {
			if err != nil {
				return err
			}
			found++
		}
		return nil
	})
	if err != nil {
		return err
	}
	walk, err := measure.Fastest(1, func() error {
		for _, err := range s.Changes() {
			if err != nil {
				return err
			}
			all++
		}
		return nil
	})
	if err != nil {
		return err
	}
	if all != n {
		return fmt.Errorf("read changes: got %d, want %d", all, n)
	}
	fmt.Printf("all %d changes %v, the %d changes of one entry %v\n", all, walk[0], found, took[0])
	t.Most("ChangesOf one entry", measure.Millis(took[0]), 20, "ms")
	return nil
}

// asOf measures a search of earlier states of the store, against the build of the
// index of the present state.
func asOf(t *measure.Limits, path string, n int) error {
	s, err := crmem.Open(path, &crmem.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer s.Close()
	search := func(sn *crmem.Snapshot) error {
		then := crmem.New(nil)
		if err := then.Replace(sn); err != nil {
			return err
		}
		_, err := then.Search(context.Background(), crmem.Query{Text: "release notes of the memory", Limit: 5})
		return errors.Join(err, then.Close())
	}
	now := s.Snapshot()
	shares := []int{99, 75, 50, 37}
	var points []crmem.Point
	for _, share := range shares {
		points = append(points, crmem.Point{Seq: uint64(n * share / 100)})
	}
	// The times are those of the last change of each point.
	for c, err := range s.Changes() {
		if err != nil {
			return err
		}
		if c.Seq == points[1].Seq {
			points = append(points, crmem.Point{Time: c.Time})
		}
	}
	build, err := leastCPU(3, func() error { return search(now) })
	if err != nil {
		return err
	}
	for _, p := range points {
		took, err := leastCPU(3, func() error {
			sn, err := s.At(p)
			if err != nil {
				return err
			}
			return search(sn)
		})
		if err != nil {
			return err
		}
		fmt.Printf("as-of search at %v: %v, index build %v\n", p, took, build)
		t.Most(fmt.Sprintf("as-of search at %v", p), measure.Ratio(took, build), 1.5, "index builds")
	}
	return nil
}

// leastCPU returns the least CPU time of a number of calls.
func leastCPU(passes int, do func() error) (best time.Duration, err error) {
	for range passes {
		before := measure.CPU()
		if err := do(); err != nil {
			return 0, err
		}
		best = measure.Least(best, measure.CPU()-before)
	}
	return best, nil
}
