package line

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"crabmem/fuzz/seed"
	"crabmem/sessionlog/record"
)

// randomFile returns a file of a session, with this and that wrong in it.
func randomFile(g *rand.Rand) []byte {
	var b []byte
	if g.IntN(8) > 0 {
		m := randomMeta(g)
		b = AppendMeta(b, &m)
	}
	ids := []string{"", "c", "d"}
	for range g.IntN(1 << g.IntN(6)) {
		var line []byte
		switch g.IntN(16) {
		case 0:
			line = AppendMarker(nil, randomText(g))
		case 1, 2:
			line = AppendMetaRecord(nil, randomText(g), g.Uint64()>>g.IntN(64))
		case 3:
			line = []byte([]string{"\n", " \r\n", "{}\n", "\x00\x00\n", "[]\n", "\xff\n"}[g.IntN(6)])
		case 4, 5, 6:
			m := Message{Role: record.RoleAssistant, Content: randomText(g)}
			for range g.IntN(4) {
				m.ToolCalls = append(m.ToolCalls, ToolCall{ID: ids[g.IntN(3)], Type: "function"})
			}
			line = AppendMessage(nil, &m)
		case 7, 8, 9, 10:
			line = AppendMessage(nil, &Message{Role: record.RoleTool, Content: randomText(g), ToolCallID: ids[g.IntN(3)]})
		default:
			m := randomMessage(g)
			line = AppendMessage(nil, &m)
		}
		switch g.IntN(40) {
		case 0:
			line = line[:g.IntN(len(line))]
		case 1, 2:
			line = line[:len(line)-1]
		}
		b = append(b, line...)
	}
	if g.IntN(4) == 0 {
		b = b[:g.IntN(len(b)+1)]
	}
	return b
}

// TestContextModel holds the context read from the end against one read from
// the beginning.
func TestContextModel(t *testing.T) {
	g := seed.Random(t)
	tally := map[string]int{}
	for i := range codecRounds {
		file := randomFile(g)
		for _, lenient := range []bool{true, false} {
			o := &ReadOptions{Lenient: lenient}
			if g.IntN(4) == 0 {
				o.MaxLine = 1 + g.Int64N(300)
			}
			what, err := judgeFile(file, o)
			if err != nil {
				t.Fatalf("file %d, %+v: %v\n%q", i, *o, err, file)
			}
			tally[what]++
		}
	}
	for _, what := range []string{"whole", "compacted", "damaged", "refused"} {
		if tally[what] < codecRounds/50 {
			t.Errorf("only %d files are %s: the generator is unbalanced", tally[what], what)
		}
	}
	t.Logf("files judged: %v", tally)
}

// judgeFile compares all readers of a file with each other and with the rules,
// applied from start to end. It returns the class of the file.
func judgeFile(file []byte, o *ReadOptions) (what string, err error) {
	size := int64(len(file))
	want, refuses := model(file, o)
	got, err := ReadContext(bytes.NewReader(file), size, o)
	if err != nil {
		f, ok := errors.AsType[*record.FormatError](err)
		if !ok || !errors.Is(err, record.ErrFormat) || o.Lenient {
			return "", fmt.Errorf("error %v", err)
		}
		if *f != refuses {
			return "", fmt.Errorf("refused: %v, want %v", f, &refuses)
		}
		return "refused", nil
	}
	if !o.Lenient && refuses != (record.FormatError{}) {
		return "", fmt.Errorf("not refused, want %v", &refuses)
	}
	if g, w := show(got), show(want); g != w {
		return "", fmt.Errorf("context:\n got %s\nwant %s", g, w)
	}
	var c Counter
	tally, err := c.Count(bytes.NewReader(file), size, o.MaxLine)
	if err != nil {
		return "", err
	}
	if !o.Lenient {
		want, _ = model(file, &ReadOptions{Lenient: true, MaxLine: o.MaxLine})
	}
	if tally.Meta != want.Meta || tally.Torn != want.Torn {
		return "", fmt.Errorf("counted %+v, the context is %s", tally, show(want))
	}
	switch {
	case got.Damaged > 0:
		return "damaged", nil
	case got.Compacted:
		return "compacted", nil
	}
	return "whole", nil
}

func show(c *Context) string {
	return fmt.Sprintf("%+v %+v start %d %v damage %+v %d torn %d", c.Meta, c.Messages, c.Start, c.Compacted, c.Damage, c.Damaged, c.Torn)
}

// model reads the context of a file as S10 to S14 say, one after the other.
// The second result is why a strict reader refuses it, zero when it does not.
func model(file []byte, o *ReadOptions) (*Context, record.FormatError) {
	type entry struct {
		found
		number int64
		sight
		bad   string
		glued bool
		next  int64 // offset after the line
	}
	var es []entry
	c := &Context{}
	limit := LimitOf(o.MaxLine)
	for i, f := range split(file, limit) {
		e := entry{found: f, number: int64(i + 1)}
		raw := file[f.off : f.off+f.size]
		e.next = f.off + f.size
		if !f.torn {
			e.next++
		}
		var ps []glimpse
		reason := func() string {
			var r Record
			r.Decode(raw, i == 0)
			return r.Reason()
		}
		if f.over {
			e.kind, e.bad = record.KindBad, fmt.Sprintf("longer than the limit of %d bytes", limit)
		} else if e.sight = oracle(raw, i == 0); e.kind == record.KindBad {
			sure := false
			if ps, sure = oraclePieces(raw, i == 0); !sure { // judge knows better
				ps = ps[:len(Pieces(nil, raw, i == 0))]
			}
			e.bad = reason()
		}
		if f.torn && (e.bad != "" || e.kind == record.KindBlank) { // S14
			if len(ps) == 0 {
				c.Torn = f.size
				break
			}
			raw = raw[:ps[len(ps)-1].hi]
			c.Torn = f.size - int64(len(raw))
			e.size, e.next = int64(len(raw)), f.off+int64(len(raw))
			if e.sight = oracle(raw, i == 0); e.kind != record.KindBad {
				e.bad, ps = "", nil
			} else {
				e.bad = reason()
			}
		}
		es = append(es, e)
		for _, p := range ps {
			l := entry{sight: p.sight, number: e.number, glued: true, next: f.off + int64(p.hi)}
			l.off, l.size = f.off+int64(p.lo), int64(p.hi-p.lo)
			if l.next == f.off+f.size {
				l.next = e.next
			}
			es = append(es, l)
		}
	}
	var last *entry // meta record
	var refuses record.FormatError
	identity := record.FormatError{Line: 1, Msg: "no meta line: line 1 is empty"}
	switch {
	case len(es) == 0 && len(file) > 0:
		var r Record
		if raw := split(file, limit)[0]; raw.over {
			identity.Msg = fmt.Sprintf("longer than the limit of %d bytes", limit)
		} else if r.Decode(file, true); r.Kind == record.KindBad {
			identity.Msg = r.Reason()
		}
	case len(es) == 0:
	case es[0].bad != "":
		identity.Msg = es[0].bad
		if len(es) > 1 && es[1].glued && es[1].kind == record.KindMeta {
			c.Meta, c.Start = es[1].meta, es[1].next
			if i := slices.IndexFunc(es, func(e entry) bool { return e.number > 1 && e.kind == record.KindMarker }); i > 0 {
				identity.Msg = "" // it is not in the context
			}
		}
	case es[0].kind == record.KindMeta:
		c.Meta, identity.Msg = es[0].meta, ""
		c.Start = es[0].next
	case es[0].kind != record.KindBlank:
		identity.Msg = fmt.Sprintf("no meta line: line 1 is of kind %v", es[0].kind)
	}
	if identity.Msg != "" {
		d := record.Damage{Line: 1, Msg: identity.Msg}
		if i := bytes.IndexByte(file, '\n'); i >= 0 {
			d.Size = int64(i)
		} else if len(es) > 0 {
			d.Size = es[0].size
		} else {
			d.Size = int64(len(file))
		}
		c.Damage = append(c.Damage, d)
		refuses = identity
	}
	begin := 0
	for i, e := range es { // S10
		if e.kind == record.KindMarker {
			begin = i
			c.Start, c.Compacted = e.off, true
		}
	}
	from := begin // the line that the context begins in is in it
	for from > 0 && es[from].glued {
		from--
	}
	for i, e := range es[from:] { // S12
		if e.bad != "" && from+i > 0 {
			refuses = record.FormatError{Line: e.number, Offset: e.off, Msg: e.bad}
			c.Damage = append(c.Damage, record.Damage{Line: e.number, Offset: e.off, Size: e.size, Msg: e.bad})
		}
	}
	var change *entry
	behind := false
	for i := range es {
		e := &es[i]
		if e.kind == record.KindMetaRecord {
			last = e
		}
		if i < begin {
			continue
		}
		switch e.kind {
		case record.KindMetaRecord:
			change = e
		case record.KindMessage, record.KindUnknown:
			behind = true
		}
	}
	if change == nil && c.Compacted && !behind { // S13
		change = last
	}
	if change != nil {
		c.Meta.Title = change.meta.Title
		c.Meta.UptimeSecs = max(c.Meta.UptimeSecs, change.meta.UptimeSecs)
	}
	var open []string // S11
	flush := func() {
		for _, id := range open {
			c.Messages = append(c.Messages, Message{Role: "tool", Content: "error: no result was recorded for this call", ToolCallID: id})
		}
		open = nil
	}
	c.Messages = []Message{}
	for _, e := range es[begin:] {
		m := e.m
		switch e.kind {
		case record.KindMarker:
			m = Message{Role: "user", Content: e.text}
		case record.KindMessage:
		default:
			continue
		}
		if m.Role == "tool" {
			if i := slices.Index(open, m.ToolCallID); i >= 0 {
				open = slices.Delete(open, i, i+1)
				c.Messages = append(c.Messages, m)
			} else {
				c.Damage = append(c.Damage, record.Damage{Line: e.number, Offset: e.off, Size: e.size, Msg: fmt.Sprintf("result without an open call: tool_call_id %.64q", m.ToolCallID)})
			}
			continue
		}
		flush()
		c.Messages = append(c.Messages, m)
		for _, call := range m.ToolCalls {
			open = append(open, call.ID)
		}
	}
	flush()
	slices.SortStableFunc(c.Damage, func(a, b record.Damage) int { return cmp.Compare(a.Offset, b.Offset) })
	c.Damaged = len(c.Damage)
	return c, refuses
}
