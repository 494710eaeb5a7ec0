package line

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"crabmem/fuzz/golden"
	"crabmem/fuzz/race"
	"crabmem/sessionlog/record"
)

// TestReportsOfRoom makes room in buffers of many lengths, for lines of many
// lengths, and compares the buffers and the reads.
func TestReportsOfRoom(t *testing.T) {
	const chunk, far = 4, farChunks * 4
	text := strings.Repeat("x", far) + "\n" + strings.Repeat("y", far+2*chunk+1) + "\n" + strings.Repeat("z", 40)
	var r golden.Reports
	for _, size := range []int{8, 9, 12, 15, 16, 17, 20, 21, 40, far - 1, far, far + 1, far + 3, far + 4, far + 5, 80, 120} {
		for _, limit := range []int64{1, 4, 11, 12, 13, 16, far - 1, far, far + 1, far + 2*chunk, far + 2*chunk + 1, far + 2*chunk + 2, 200} {
			var b strings.Builder
			for _, n := range []int{0, 1, 2, 3, 4, 5, 8, 11, 12, 13, 16, 20, far - 1, far, far + 1, far + 4, 80, 120} {
				for _, lo := range []int{0, 1, 3, 4, 5} {
					for _, pos := range []int64{2, 4, 40, far + 2, far + 2*chunk + 2, int64(len(text))} {
						if n+lo > size {
							continue
						}
						l := &loggedReader{r: strings.NewReader(text)}
						back := BackScanner{r: l, pos: pos, limit: limit, chunk: chunk, buf: marked(size, lo, n), lo: lo, hi: lo + n}
						made := back.room()
						fmt.Fprintf(&b, "%d %d %d: %v %d %d %d %v %v;", n, lo, pos, made, len(back.buf), back.lo, back.hi, l.log, isMarked(back.buf[back.lo:back.hi]))
						l.log = nil
						s := Scanner{r: l, pos: pos, end: int64(len(text)), limit: limit, chunk: chunk, buf: marked(size, lo, n), lo: lo, hi: lo + n}
						made = s.room()
						fmt.Fprintf(&b, " %v %d %d %d %v %v\n", made, len(s.buf), s.lo, s.hi, l.log, isMarked(s.buf[s.lo:s.hi]))
					}
				}
			}
			r.Add(fmt.Sprintf("buffer of %d bytes, limit %d", size, limit), b.String())
		}
	}
	r.Compare(t, "testdata/reports/room.txt.gz")
}

// marked returns a buffer of which n bytes from an offset have the values 1, 2, and
// so on.
func marked(size, lo, n int) []byte {
	b := make([]byte, size)
	for i := range n {
		b[lo+i] = byte(i + 1)
	}
	return b
}

func isMarked(b []byte) bool { return string(b) == string(marked(len(b), 0, len(b))) }

// TestDuplicateKeys decodes lines in which a key occurs twice. The record has the
// first value.
func TestDuplicateKeys(t *testing.T) {
	for k := KeyCompact; k <= keySource; k++ {
		if k == KeyToolCalls || k == keyMeta {
			continue
		}
		var r Record
		r.Decode(fmt.Appendf(nil, `{"%s":"first","%[1]s":"second`, k), true)
		if got := r.Text(r.Values[k]); r.Kind != record.KindBad || !r.Truncated || got != "first" {
			t.Errorf("%s: a %v line, truncated %t, %q", k, r.Kind, r.Truncated, got)
		}
		r.Decode(fmt.Appendf(nil, `{"%s":"first","%[1]s":3}`, k), true)
		if got := r.Text(r.Values[k]); got != "first" {
			t.Errorf("%s: %q", k, got)
		}
	}
}

// TestRecordReuse decodes each line with a record of each other line. The record
// equals a new one.
func TestRecordReuse(t *testing.T) {
	lines := append([]string{"{\"role\":\"user\",\"content\":\"\xff\"}", `{"meta":{"title":"a","uptime_secs":1}`, "too long"}, reportLines...)
	decode := func(r *Record, line string, first bool) {
		if line == "too long" {
			r.tooLong(7)
		} else {
			r.Decode([]byte(line), first)
		}
	}
	for _, a := range lines {
		for _, b := range lines {
			for first := range 4 {
				var used, fresh Record
				decode(&used, a, first&1 > 0)
				decode(&used, b, first&2 > 0)
				decode(&fresh, b, first&2 > 0)
				if string(used.Line) != string(fresh.Line) {
					t.Errorf("%q after %q: line %q", b, a, used.Line)
				}
				used.Line, fresh.Line = nil, nil
				if !reflect.DeepEqual(used, fresh) {
					t.Errorf("%q after %q: %+v, want %+v", b, a, used, fresh)
				}
			}
		}
	}
	want := Record{Kind: record.KindBad, fault: fault{code: faultUTF8, at: 26}}
	var r Record
	if r.Decode([]byte(lines[0]), false); string(r.Line) != lines[0] {
		t.Errorf("line %q", r.Line)
	}
	if r.Line = nil; !reflect.DeepEqual(r, want) {
		t.Errorf("invalid UTF-8: %+v", r)
	}
}

// TestDecodeLongestLine decodes lines around the limit of positions in a line.
func TestDecodeLongestLine(t *testing.T) {
	if race.Enabled || strconv.IntSize < 64 {
		t.Skip("the race detector checks the slice")
	}
	const most = math.MaxInt32 - 16
	// The decoder reads only the first bytes, so the others need no memory.
	line := unsafe.Slice(&[]byte("x is not JSON, nor is the rest")[0], most+1)
	for n, want := range map[int]fault{most: {code: faultSyntax}, most + 1: {code: faultLong, at: most}} {
		var r Record
		if r.Decode(line[:n], false); r.Kind != record.KindBad || r.fault != want {
			t.Errorf("%d bytes: a %v line, %+v, want %+v", n, r.Kind, r.fault, want)
		}
	}
}
