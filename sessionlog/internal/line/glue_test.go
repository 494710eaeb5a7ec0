package line

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/fuzz/race"

	"crabmem/sessionlog/record"
)

// TestPiecesBounded checks lines that are designed to make the search for
// records slow: time and memory stay bounded.
func TestPiecesBounded(t *testing.T) {
	race.Skip(t)
	const large, size = 16 << 20, 4 << 20
	fill := func(s string) []byte { return bytes.Repeat([]byte(s), (size-1)/len(s)) }
	fillAll := func(s string) []byte { return bytes.Repeat([]byte(s), (large-1)/len(s)) }
	message := func(at int) string { return fmt.Sprintf(`{"role":"user","content":"%0*d"}`, at, 1) }
	for _, c := range []struct {
		name   string
		line   []byte
		pieces int
	}{
		{"beginnings", fillAll(`{"role":`), 0},
		{"beginnings in arrays", fill(`{"role":[`), 0},
		{"beginnings that end at once", fill(`{"role":x`), 0},
		{"beginnings in beginnings", fill(strings.Repeat(`{"role":`, 120) + `0,`), 0},
		{"braces", fill(`{`), 0},
		{"braces and quotes", fill(`{"`), 0},
		{"half of deep objects, each with much in it", append([]byte(strings.Repeat(`{"role":`, 100)+`[`), fill(`0,`)...), 0},
		{"whole records", fillAll(`{"role":"a"}`), (large - 1) / 12},
		{"whole records and halves", fill(`{"role":"a"}{"role":"`), (size - 1) / 21},
		{"records in an array without its end", append([]byte(`{"role":"a","x":[`), fill(`{"role":"a"},`)...), 0},
		{"deep records", append(fillAll(`{"meta":`+strings.Repeat(`{"meta":`, 100)+`{}`+strings.Repeat(`}`, 101)+`,`), '{'), 0},
		{"deep records, whole", append(fill(`{"meta":`+strings.Repeat(`{"meta":`, 100)+`{}`+strings.Repeat(`}`, 101)), '{'), (size - 1) / (101*8 + 2 + 101)},
		{"large records", []byte("{" + strings.Repeat(message(size/8), 7)), 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			var found []piece
			var r Record
			begun := time.Now()
			r.Decode(c.line, false)
			plain := time.Since(begun)
			begun = time.Now()
			n := allocated(func() { found = Pieces(nil, c.line, false) })
			took := time.Since(begun)
			gate.Time(t, "search", begun, 20*time.Second)
			// Each is some bytes, in a slice that grew.
			most := int64(64*len(found) + 1<<10)
			for i := 0; n > most && i < 4; i++ {
				n = min(n, allocated(func() { found = Pieces(nil, c.line, false) })) // the count includes other goroutines
			}
			if r.Kind != record.KindBad || len(found) != c.pieces {
				t.Errorf("a %v line with %d pieces, want %d", r.Kind, len(found), c.pieces)
			}
			if n > most {
				t.Errorf("%d bytes allocated, the bound is %d", n, most)
			}
			t.Logf("%d pieces, %d bytes allocated, searched for %v, decoded in %v", len(found), n, took, plain)
		})
	}
}

// TestPiecesGiveUp checks that the search gives up after its limit, and
// returns the records before that.
func TestPiecesGiveUp(t *testing.T) {
	whole := `{"role":"user","content":"x"}`
	// Each of the beginnings is read to the end of the line.
	vainly := strings.Repeat(`{"role":`, 100) + "[" + strings.Repeat(`0,`, 100_000)
	// Each of the beginnings is read to the end of its object.
	nested := strings.Repeat(`{"role":`, 120) + "1" + strings.Repeat("}", 120)
	for _, c := range []struct {
		line string
		want int
	}{
		{whole + whole + vainly, 2},
		{whole + vainly + whole, 1},
		{whole + strings.Repeat(nested, 3) + whole, 1},
		{whole + strings.Repeat(`{"role":`, 100) + "!" + whole, 2},
	} {
		found := Pieces(nil, []byte(c.line), false)
		if len(found) != c.want {
			t.Errorf("%.200s…: %d pieces, want %d", c.line, len(found), c.want)
		}
	}
}

// TestPiecesLimit searches lines in which the bytes read without finding a record
// are exactly at the limit, one byte below, and one above. A record at the end of
// the line is found up to the limit.
func TestPiecesLimit(t *testing.T) {
	const whole = `{"role":"user"}`
	for _, c := range []struct {
		prefix string
		cost   int // bytes read of the prefix
		pieces int // records in the prefix
	}{
		{"", 0, 0},
		{" x", 0, 0},
		{whole, 0, 1},
		{`{"role":x`, 8, 0},
		{`  {"role":x`, 8, 0},
		{`{"role":"a"}x`, 12, 0},
		{`{"role":"a"} x`, 12, 0},
		{"{\"role\":\"\xff\"}", 12, 0},
		{`{"role":1}`, 10, 0},
		{whole + `{"compact":1,"a":{}}x{"meta":{}}`, 20, 2},
		{`x{"compact":2} `, 14, 0},
	} {
		for _, over := range []int{-1, 0, 1} {
			// Each of the five beginnings is read up to the exclamation mark.
			n := vain + 4*(len(c.prefix)+1+len(whole)) + 8*(1+2+3+4) - c.cost + over
			nested := strings.Repeat(`{"role":`, 5) + "["
			line := c.prefix + nested + strings.Repeat(" ", n-len(nested)) + "!" + whole
			want := c.pieces + 1
			if over > 0 {
				want--
			}
			if found := Pieces(nil, []byte(line), false); len(found) != want {
				t.Errorf("%q, %d bytes over the limit: %d pieces, want %d", c.prefix, over, len(found), want)
			}
		}
	}
}

// TestSplitterKeepsMemory splits lines with pieces in memory of several lengths.
// The splitter keeps at most MaxScratch bytes of it.
func TestSplitterKeepsMemory(t *testing.T) {
	line := []byte(`x{"role":"user"}{"role":"tool"}`)
	for capacity, kept := range map[int]bool{2: true, MaxScratch / 8: true, MaxScratch/8 + 1: false} {
		s := splitter{pieces: make([]piece, 1, capacity)}
		before := &s.pieces[0]
		if !s.split(&Raw{Offset: 5, Size: int64(len(line)), Bytes: line}) || len(s.pieces) != 2 || (&s.pieces[0] == before) != kept {
			t.Errorf("memory for %d pieces: %v, kept %t", capacity, s.pieces, !kept)
		}
	}
}

// TestTextKeepsMemory reads escaped strings of several lengths. The record keeps at
// most MaxScratch bytes for the next one.
func TestTextKeepsMemory(t *testing.T) {
	for capacity, kept := range map[int]bool{2: true, MaxScratch: true, MaxScratch + 1: false} {
		r := Record{scratch: make([]byte, 2, capacity)}
		r.Decode([]byte(`{"compact":"\n"}`), false)
		if text := r.Summary(); text != "\n" || (cap(r.scratch) == capacity) != kept {
			t.Errorf("memory of %d bytes: %q, then %d bytes", capacity, text, cap(r.scratch))
		}
	}
}

// TestOpening checks which texts may begin a record in a bad line.
func TestOpening(t *testing.T) {
	for text, want := range map[string]int{
		"": -1, `{`: -1, `{"`: -1, `{"role"`: -1, `{"role":`: 0, `x{"compact":"`: 1, `{"{"meta":{`: 2,
		`{"a":1}{"x":{"role":"`: 12, `{"metas":1,"role":`: -1, `{ "role":`: -1,
	} {
		if got := opening([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
