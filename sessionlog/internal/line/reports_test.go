package line

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"crabmem/fuzz/golden"
	"crabmem/sessionlog/record"
)

// reportLines are lines and parts of lines of each kind.
var reportLines = []string{
	`{"agent":"crab","created_by":"user","created_at":"2026-01-02T03:04:05Z","title":"t\u00e9","uptime_secs":7}`, `{"agent":"crab"}`, `{"agent":3}`,
	`{"role":"user","content":"hi"}`, `{"role":"assistant","content":"","reasoning_content":"why","tool_calls":[{"id":"1","type":"function","function":{"name":"n","arguments":"{}"}}]}`,
	`{"role":"tool","content":"out","tool_call_id":"1"}`, `{"role":"tool","content":"out","tool_call_id":""}`, `{"role":"user","tool_call_id":"1"}`, `{"role":"function","content":"x"}`,
	`{"compact":"summary\n"}`, `{"compact":3}`, `{"meta":{"title":"new","uptime_secs":9}}`, `{"meta":{"title":"new"}}`, `{"meta":3}`, `{"meta":{"uptime_secs":-1}}`, `{"meta":{"uptime_secs":1.5}}`,
	`{"uptime_secs":18446744073709551615,"agent":"a","created_by":"b","created_at":"c"}`, `{"uptime_secs":18446744073709551616,"agent":"a","created_by":"b","created_at":"c"}`,
	`{"note":1}`, `{}`, `[]`, `null`, `3`, `"s"`, ``, ` `, "\t\r", "\x00", `{`, `{"role"`, `{"role":"user"}{"role":"user","content":"b"}`, `{"role":"us{"role":"user","content":"b"}`, `x{"role":"user","content":"b"}y`,
	`{"role":"user","role":"tool"}`, `{"role":"user","content":"a","compact":"b"}`, `{"tool_calls":3}`, `{"role":"assistant","tool_calls":[3]}`, `{"role":"assistant","tool_calls":[{"id":3}]}`,
	`{"role":"assistant","tool_calls":[{"id":"a","id":"b"}]}`, `{"role":"assistant","tool_calls":[{"function":{"name":"a","name":"b"}}]}`, `{"role":"assistant","tool_calls":[{"function":{"arguments":1}}]}`,
	`{"role":"assistant","tool_calls":[{"function":null,"type":null,"id":null,"x":1},{"function":"f"},{}]}`, `{"role":"assistant","tool_calls":[{"name":"a","arguments":"b","function":{"id":"x","type":"y","name":"n"}}]}`,
	`{"role":"assistant","tool_calls":null,"content":null}`, `{"ro\u006ce":"us\u0065r","content":"a"}`, ` { "role" : "user" , "content" : [ 1 , { "a" : true } ] } `,
}

// reportStrings are the bytes between the quotes of a string.
func reportStrings() []string {
	parts := []string{"", "a", "é", "😀", `\n`, `\"`, `\\`, `\/`, `\b`, `\f`, `\r`, `\t`, `\x`, `\`, `\u`, `\u0`, `\u00e9`, `\u00E9`, `\u00g9`, `\ud83d`, `\ude00`, `\ud83d\ude00`, `\ud83d\u`, `\ud83d\ud83d`, `\ud83d\u00e9`,
		`\ud83d\x`, `\ud83dx`, `\uDBFF\uDFFF`, `\uD800\uDC00`, `\udbff\udbff`, `\udc00`, "\xff", "\xc3", "\xf0\x9f", "\xed\xa0\x80", "\x1f", "\x7f", "\x00", "\t"}
	var list []string
	for _, a := range parts {
		for _, b := range parts {
			list = append(list, a+b)
		}
	}
	return list
}

// describeRecord describes what a line was decoded to.
func describeRecord(r *Record) string {
	text := fmt.Sprintf("%v", r.Kind)
	switch r.Kind {
	case record.KindBad:
		return text + " " + r.Reason()
	case record.KindMessage:
		text += fmt.Sprintf(" %+v result %v content %q", r.Message(), r.IsResult(), r.AppendText([]byte("+"), r.Values[KeyContent]))
	case record.KindMarker:
		text += fmt.Sprintf(" %q %q", r.Summary(), r.AppendText(nil, r.Values[KeyCompact]))
	case record.KindMeta:
		text += fmt.Sprintf(" %+v", r.Meta())
	case record.KindMetaRecord:
		text += fmt.Sprintf(" %q %d", r.Text(r.Title), r.uptime)
	}
	return text
}

// TestReportsOfLines decodes lines, all of their beginnings, and lines with one
// byte changed, and compares the results.
func TestReportsOfLines(t *testing.T) {
	var r golden.Reports
	var rec Record
	add := func(line string) {
		for _, first := range []bool{false, true} {
			rec.Decode([]byte(line), first)
			text := describeRecord(&rec)
			for _, p := range Pieces(nil, []byte(line), first) {
				text += fmt.Sprintf("\npiece %+v", p)
			}
			r.Add(fmt.Sprintf("%q %v", line, first), text)
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	for _, line := range reportLines {
		for n := range len(line) + 1 {
			add(line[:n])
		}
		for range 60 {
			if len(line) == 0 {
				break
			}
			b := []byte(line)
			b[random.IntN(len(b))] = ` "\{}[],:0etn-.x`[random.IntN(16)]
			add(string(b))
		}
	}
	for _, s := range reportStrings() {
		add(`{"role":"user","content":"` + s + `"}`)
		add(`{"compact":"` + s)
		rec.Decode([]byte(`{"`+s+`":"a","role":"user"}`), false)
		r.Add(fmt.Sprintf("key %q", s), describeRecord(&rec))
	}
	for _, n := range []string{"0", "-0", "-1", "01", "1.", "1.0", "1e0", "1e", "1e+", "1E-2", ".5", "-", "+1", "1.5e10", "18446744073709551615", "18446744073709551616", "99999999999999999999", "184467440737095516150", "tru", "true", "nul", "null", "nulll", "false", "fals3"} {
		for _, end := range []string{"}", ",", " }", ""} {
			add(`{"agent":"a","created_by":"b","created_at":"c","uptime_secs":` + n + end)
			add(`{"meta":{"title":"x","uptime_secs":` + n + end + `}`)
			add(`{"role":"user","content":` + n + end)
		}
	}
	for depth := 120; depth < 140; depth++ {
		for _, pair := range []string{"[]", "{}"} {
			begin, end := pair[:1], pair[1:]
			if begin == "{" {
				begin = `{"a":`
			}
			for _, outer := range [][2]string{{`{"note":`, `}`}, {`{"role":"user","content":`, `}`}, {`{"role":"assistant","tool_calls":[`, `]}`}, {`{"role":"assistant","tool_calls":[{"x":`, `}]}`}, {`{"role":"assistant","tool_calls":[{"function":{"x":`, `}}]}`}, {`{"meta":{"x":`, `}}`}} {
				rec.Decode([]byte(outer[0]+strings.Repeat(begin, depth)+"1"+strings.Repeat(end, depth)+outer[1]), false)
				r.Add(fmt.Sprintf("%s %d of %s", outer[0], depth, pair), describeRecord(&rec))
			}
		}
	}
	r.Compare(t, "testdata/reports/lines.txt.gz")
}

// loggedReader logs its reads. The n-th fails.
type loggedReader struct {
	r   io.ReaderAt
	log []string
	n   int
}

var errRead = errors.New("read failed")

func (l *loggedReader) ReadAt(b []byte, off int64) (int, error) {
	l.log = append(l.log, fmt.Sprintf("%d+%d", off, len(b)))
	if len(l.log) == l.n {
		return 0, errRead
	}
	return l.r.ReadAt(b, off)
}

// reportTexts are files of lines of many lengths and kinds.
func reportTexts() []string {
	var texts []string
	random := rand.New(rand.NewPCG(2, 2))
	for range 12 {
		var b strings.Builder
		b.WriteString(reportLines[random.IntN(3)] + "\n")
		for range 1 + random.IntN(12) {
			line := reportLines[random.IntN(len(reportLines))]
			switch random.IntN(8) {
			case 0:
				line = `{"role":"user","content":"` + strings.Repeat("long ", random.IntN(120)) + `"}`
			case 1:
				line += reportLines[3]
			}
			b.WriteString(line)
			if random.IntN(12) > 0 {
				b.WriteString("\n")
			}
		}
		texts = append(texts, b.String())
	}
	for _, n := range []int{0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 257, 271, 272, 273, 511, 512, 513, 600} {
		texts = append(texts, strings.Repeat("x", n), strings.Repeat("x", n)+"\n", "\n"+strings.Repeat("x", n)+"\ny\n"+strings.Repeat("z", n)+"\n", strings.Repeat("\n", n%40)+strings.Repeat("w", n)+"\nu")
	}
	return texts
}

// TestReportsOfScans reads files by each scanner with chunks of 16 bytes, with
// limits and failing reads, and compares the lines and the reads.
func TestReportsOfScans(t *testing.T) {
	var r golden.Reports
	var rec Record
	each := func(title string, size int, file string, scan func(l *loggedReader) string) {
		for n := 0; ; n++ {
			l := &loggedReader{r: strings.NewReader(file), n: n}
			text := scan(l)
			if n == 0 {
				text += strings.Join(l.log, " ")
			}
			r.Add(fmt.Sprintf("%s, read %d of %d", title, n, size), text)
			if n > 0 && len(l.log) < n || n > 0 && size > 400 && n > 12 {
				break
			}
		}
	}
	for i, file := range reportTexts() {
		for _, limit := range []int64{0, 40, 256, 272, 300} {
			for _, cut := range []int{0, 3} { // bytes that the file lost
				if cut > len(file) || cut > 0 && limit != 256 {
					continue
				}
				size := int64(len(file))
				short := file[:len(file)-cut]
				title := fmt.Sprintf("file %d, limit %d, cut %d", i, limit, cut)
				each(title+", forward", len(file), short, func(l *loggedReader) string {
					var b strings.Builder
					s := Scanner{chunk: 16}
					s.Reset(l, 0, size, limit)
					for s.Next() {
						s.Decode(&rec)
						fmt.Fprintf(&b, "%d %d %d %v %v %v %v %v %d next %d %v %d\n", s.Number, s.Line.Offset, s.Line.Size, s.Line.Bytes == nil, s.Line.Torn, s.Line.Unended, s.Line.Tail, s.Line.Glued, s.Line.Pieces, s.Line.Next(), rec.Kind, len(s.buf))
					}
					return b.String() + fmt.Sprint(s.Err, s.Next())
				})
				each(title+", backward", len(file), short, func(l *loggedReader) string {
					var b strings.Builder
					s := BackScanner{chunk: 16}
					s.Reset(l, size, limit)
					for s.Next() {
						s.Decode(&rec)
						fmt.Fprintf(&b, "%d %d %v %v %v %v %v %d %v %d\n", s.Line.Offset, s.Line.Size, s.Line.Bytes == nil, s.Line.Torn, s.Line.Unended, s.Line.Tail, s.Line.Glued, s.Line.Pieces, rec.Kind, len(s.buf))
					}
					return b.String() + fmt.Sprint(s.Err, s.Next())
				})
				if limit == 300 {
					continue
				}
				each(title+", count", len(file), short, func(l *loggedReader) string {
					var c Counter
					c.scan.chunk = 16
					tally, err := c.Count(l, size, limit)
					return fmt.Sprintf("%+v %v\n", tally, err)
				})
				each(title+", numbered", len(file), short, func(l *loggedReader) string {
					var b strings.Builder
					from := int64(strings.IndexByte(file, '\n') + 1)
					for _, number := range []int64{0, 5} {
						for line, err := range Numbered(l, from, number, size, limit) {
							line.Raw = nil
							fmt.Fprintf(&b, "%+v %v\n", line, err)
						}
					}
					return b.String()
				})
				each(title+", context", len(file), short, func(l *loggedReader) string {
					c, err := ReadContext(l, size, &ReadOptions{MaxLine: limit})
					d, lerr := ReadContext(l, size, &ReadOptions{MaxLine: limit, Lenient: true})
					return fmt.Sprintf("%+v %v\n%+v %v\n", c, err, d, lerr)
				})
			}
		}
	}
	r.Compare(t, "testdata/reports/scans.txt.gz")
}

// TestCountPartsErrors fails a read in each of the two parts.
func TestCountPartsErrors(t *testing.T) {
	file := parts{{frameMeta, 1}, {frameBefore, 3 * ListPart / int64(len(frameBefore))}}
	for _, at := range []int64{0, ListPart - 1, file.size() - ListPart, file.size() - 1} {
		var c Counter
		tally, err := c.CountParts(&reads{ReaderAt: file, failAt: at, err: errRead}, file.size(), 0)
		if !errors.Is(err, errRead) || tally != (Tally{}) {
			t.Errorf("error at %d: %+v, %v", at, tally, err)
		}
	}
}
