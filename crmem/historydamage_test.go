package crmem_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs/faultfs"
)

func segmentPath(n int) string { return fmt.Sprintf("/m.db-history/%08d.log", n) }

// segmentFile returns the path of a segment, compressed or not.
func (p *past) segmentFile(n int) string {
	if _, err := p.m.Lstat(segmentPath(n)); err != nil {
		return segmentPath(n) + ".zst"
	}
	return segmentPath(n)
}

// beginSegment makes a checkpoint that begins a segment, because the newest one has
// a second name.
func (p *past) beginSegment(newest int) {
	p.t.Helper()
	p.must(p.m.Link(segmentPath(newest), "/link"))
	p.must(p.s.Checkpoint())
	p.must(p.m.Remove("/link"))
}

// originals returns the segments and bases.
func (p *past) originals() []string {
	p.t.Helper()
	return slices.DeleteFunc(p.files(), func(name string) bool { return strings.HasSuffix(name, ".idx") })
}

// newSegments returns a store with the changes 1 to n, in n segments after one base.
func newSegments(t *testing.T, n int) *past { return newSegmentsOf(t, n, true) }

// newSegmentsOf is newSegments. If plain is not set, the segments before the newest one
// are compressed.
func newSegmentsOf(t *testing.T, n int, plain bool) *past {
	p := newPast(t)
	p.plain = true
	p.reopen()
	p.do(crmem.Add{Name: "a1"})
	p.must(p.s.Checkpoint())
	for i := 2; i <= n; i++ {
		p.do(crmem.Add{Name: fmt.Sprint("a", i)})
		p.beginSegment(i - 1)
	}
	if got := len(p.originals()); got != n+1 {
		t.Fatalf("%d segments: %q", n, p.originals())
	}
	if !plain {
		p.must(crmem.Compress(p.s))
		if got := len(p.history(".zst")); got != n-1 {
			t.Fatalf("%d of %d segments are compressed", got, n)
		}
	}
	return p
}

// flip changes a byte of a file.
func (p *past) flip(name string, at int) {
	p.t.Helper()
	b := []byte(p.copyFiles()[name])
	b[at]++
	p.now++
	p.put(name, string(b))
}

// brief returns the sequence numbers of the changes, and "error" for each error.
func (p *past) brief() string {
	var list []string
	for c, err := range p.s.Changes() {
		if err != nil {
			list = append(list, "error")
		} else {
			list = append(list, fmt.Sprint(c.Seq))
		}
	}
	return strings.Join(list, " ")
}

// TestFoldExtends counts the bytes that folds read. A process reads the newest
// segment at its first fold only.
func TestFoldExtends(t *testing.T) {
	p := newSegments(t, 2)
	p.reopen()
	for i := range 4 {
		reads := 0
		p.m.Hook = func(c faultfs.Call) error {
			if c.Op == "read" && strings.HasSuffix(c.Name, ".log") {
				reads++
			}
			return nil
		}
		p.do(crmem.Add{Name: fmt.Sprint("b", i)})
		p.must(p.s.Checkpoint())
		p.m.Hook = nil
		if (reads == 0) != (i > 0) {
			t.Errorf("fold %d has %d reads of segments", i, reads)
		}
	}
	if got := p.originals(); len(got) != 3 {
		t.Errorf("files %q", got)
	}
	if got := p.brief(); got != "1 2 3 4 5 6" {
		t.Errorf("changes %s", got)
	}
}

// TestFirstFoldReads folds after a segment of 200 KiB. It reads only the end of that
// segment, and writes a base if it cannot read the segment.
func TestFirstFoldReads(t *testing.T) {
	for _, failed := range []string{"", "open", "stat"} {
		fails := failed != ""
		p := newPast(t)
		p.do(crmem.Add{Name: "large", Content: strings.Repeat("x", 200<<10)})
		p.do(crmem.Add{Name: "small"})
		p.must(p.s.Checkpoint())
		p.do(crmem.Add{Name: "a"})
		p.beginSegment(1)
		p.reopen()
		p.do(crmem.Add{Name: "b"})
		opens, bytes := 0, 0
		p.m.Hook = func(c faultfs.Call) error {
			switch {
			case c.Name != segmentPath(1):
			case c.Op == "read":
				bytes += c.Size
			case c.Op == "open":
				opens++
			}
			if c.Name == segmentPath(1) && c.Op == failed && opens > 1 { // the first one is for the header
				return errors.New("failed")
			}
			return nil
		}
		p.must(p.s.Checkpoint())
		p.m.Hook = nil
		if want := map[bool]int{false: 3, true: 5}[fails]; len(p.originals()) != want {
			t.Errorf("%q fails: files %q", failed, p.originals())
		}
		if bytes < 60<<10 != fails || bytes > 100<<10 {
			t.Errorf("%q fails: read %d bytes", failed, bytes)
		}
	}
}

// TestAtDamagedBase damages the only operation of a segment with a base. The state
// before that operation is shown from an older base.
func TestAtDamagedBase(t *testing.T) {
	p := newSegments(t, 8)
	p.do(crmem.Add{Name: "a9"})
	p.beginSegment(8)
	bases := slices.DeleteFunc(p.originals(), func(name string) bool { return !strings.HasSuffix(name, ".crmem") })
	if len(bases) != 2 {
		t.Fatalf("bases %q", bases)
	}
	p.flip(segmentPath(9), len(p.copyFiles()[segmentPath(9)])-1)
	if sn, err := p.s.At(crmem.Point{Seq: 8}); err != nil || sn.Len() != 8 {
		t.Errorf("after change 8: %v", err)
	}
	if _, err := p.s.At(crmem.Point{Seq: 9}); err == nil {
		t.Error("state after a damaged change")
	}
}

// TestUnreadSegment fails to read a segment after its header.
func TestUnreadSegment(t *testing.T) {
	p := newSegments(t, 2)
	opens, failed := 0, errors.New("failed")
	p.m.Hook = func(c faultfs.Call) error {
		if c.Op == "open" && c.Name == segmentPath(1) {
			if opens++; opens > 1 {
				return failed
			}
		}
		return nil
	}
	if _, err := p.s.At(crmem.Point{Seq: 1}); !errors.Is(err, failed) || opens < 2 {
		t.Errorf("%d opens: %v", opens, err)
	}
}

// TestNoHistory asks for states of a store without changes.
func TestNoHistory(t *testing.T) {
	if _, err := crmem.New(nil).At(crmem.Point{Seq: 1}); !errors.Is(err, crmem.ErrNotFound) {
		t.Errorf("a store in RAM: %v", err)
	}
	p := newPast(t)
	if _, err := p.s.At(crmem.Point{Seq: 1}); !errors.Is(err, crmem.ErrNotFound) {
		t.Errorf("an absent store: %v", err)
	}
	p.do(crmem.Add{Name: "a"})
	p.must(p.s.Checkpoint())
	list := p.originals()
	for _, name := range list {
		p.must(p.m.Remove("/m.db-history/" + name))
	}
	sn, err := p.s.At(crmem.Point{Time: time.Unix(p.now+1, 0)})
	if err != nil || sn.Len() != 1 {
		t.Errorf("a store without segments: %v, %v", sn, err)
	}
	if _, err := p.s.At(crmem.Point{Time: time.Unix(p.now-100, 0)}); !errors.Is(err, crmem.ErrNotFound) {
		t.Errorf("a store without segments, before its snapshot: %v", err)
	}
}

// TestSegmentOrder gives segments numbers whose names have another order.
func TestSegmentOrder(t *testing.T) {
	p := newSegments(t, 2)
	p.must(p.m.Rename(segmentPath(1), segmentPath(20_000_000)))
	p.must(p.m.Rename(segmentPath(2), segmentPath(100_000_000)))
	p.do(crmem.Add{Name: "a3"})
	p.beginSegment(100_000_000)
	if got := p.brief(); got != "1 2 3" {
		t.Errorf("changes %s", got)
	}
	if _, err := p.m.Lstat(segmentPath(100_000_001)); err != nil {
		t.Error(err, p.originals())
	}
}

// TestBatchAcrossSegments writes a segment that continues inside a batch.
func TestBatchAcrossSegments(t *testing.T) {
	p := newPast(t)
	p.do(crmem.Add{Name: "a"}, crmem.Add{Name: "b"})
	p.must(p.s.Checkpoint())
	scan, err := format.ScanLog([]byte(p.copyFiles()[segmentPath(1)]))
	p.must(err)
	h := scan.LogHeader
	h.Seq, h.Before = 2, format.Place{Epoch: h.Epoch, Seq: 1, CRC: scan.Frames[0].RecordCRC()}
	w := h.Writer()
	p.put(segmentPath(2), string(w.AppendCopy(h.Append(nil), &scan.Frames[1], w.End)))
	var got error
	for _, err := range p.s.Changes() {
		got = errors.Join(got, err)
	}
	f, ok := errors.AsType[*crmem.FormatError](got)
	if !ok || f.Path != segmentPath(1) || f.Offset != 112 || f.Entry != -1 || !strings.Contains(f.Msg, "inside this batch") {
		t.Errorf("%v", got)
	}
}
