package line

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"crabmem/sessionlog/record"
)

const workStart = `{"work":{"id":"w1","op":"start","kind":"worker","agent":"a","session":"a_work-b_1"}}`

// FuzzLine holds the decoder of lines against the oracle.
func FuzzLine(f *testing.F) {
	for _, line := range []string{
		``, ` `, `{}`, `{"role":"user"}`, `{"role":"us{"role":"user"}`, `{"compact":"a\u00e9\ud83d\ude00"}`, `{"meta":{"title":"t","uptime_secs":1}}`,
		`{"agent":"a","created_by":"b","created_at":"c","title":"d","uptime_secs":5,"source":"s"}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}},{}]}`,
		`{"agent":"a","created_by":"work-b","created_at":"c","parent":"a_b_1/w1"}`, `{"role":"user","content":"x","work":["w1.1","r2"]}`,
		workStart, `{"work":{"op":"end","n":1,"state":"done","reason":"outcome","text":"x"}}`, `{"work":{"op":"state","state":"running","attempt":2}}`,
		`{"work":{"op":"route","n":1,"text":"x"}}`, `{"work":{"op":"open","next":{"b":1,"w":2}}}`,
		`{"x":[0,-1.5e+3,true,false,null,{"\u0072ole":[]}]}`, "\ufeff{}", "\x00\x00",
	} {
		f.Add([]byte(line))
	}
	for _, row := range hostiles() {
		if len(row.line) < 1<<10 {
			f.Add([]byte(row.line))
		}
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if len(line) > 1<<14 {
			return // the oracle takes its time
		}
		line = bytes.ReplaceAll(line, []byte("\n"), nil)
		for _, first := range []bool{false, true} {
			if _, err := judge(line, first); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
		// Any text goes into a line and comes back.
		m := Message{Role: record.RoleUser, Content: strings.ToValidUTF8(string(line), "?")}
		var r Record
		if r.Decode(appendMessage(nil, &m), false); r.Kind != record.KindMessage || r.Message().Content != m.Content {
			t.Fatalf("%q came back as %q (%s)", m.Content, r.Message().Content, r.Kind)
		}
	})
}

// FuzzSession holds all readers of a file against each other and the rules.
func FuzzSession(f *testing.F) {
	for _, file := range []string{
		"", "\n", frameMeta, frameMeta + frameBefore + frameAfter, "{}\n\x00\n",
		frameMeta + `{"role":"assistant","tool_calls":[{"id":"c"},{"id":"c"}]}` + "\n" + `{"role":"tool","tool_call_id":"c"}` + "\n" + `{"role":"us`,
		frameMeta + `{"meta":{"title":"t"}}` + "\n" + `{"compact":"s"}` + "\n" + `{"meta":{"ti`,
		frameMeta + `{"role":"us{"compact":"s"}` + "\r\n" + frameBefore + `{}`,
		frameMeta + workStart + "\n" + `{"role":"user","work":["w1.1"]}` + "\n" + `{"compact":"s"}` + "\n" + `{"work":{"op":"open","next":{"b":1,"w":2}}}`,
	} {
		f.Add([]byte(file), uint8(0), uint8(0))
		f.Add([]byte(file), uint8(20), uint8(7))
	}
	for _, row := range hostiles() {
		if row.line != "" {
			row.frame()
		}
		if len(row.file) < 1<<10 {
			f.Add([]byte(row.file), uint8(row.limit), uint8(30))
		}
	}
	f.Fuzz(func(t *testing.T, file []byte, limit, chunk uint8) {
		size := int64(len(file))
		if size > 1<<16 {
			return // the oracle takes its time
		}
		for _, lenient := range []bool{true, false} {
			if _, err := judgeFile(file, &ReadOptions{Lenient: lenient, MaxLine: int64(limit)}); err != nil {
				t.Fatalf("lenient %v: %v", lenient, err)
			}
		}
		// Every byte is in a line, forward and backward, in the memory of a
		// chunk and a line.
		s := Scanner{chunk: int(chunk) + 1}
		s.Reset(bytes.NewReader(file), 0, size, int64(limit))
		var forward, backward []found
		var at int64
		for s.Next() {
			forward = append(forward, foundOf(&s.Line))
			if s.Line.Offset != at {
				t.Fatalf("line %d begins at %d, the one before ends at %d", s.Number, s.Line.Offset, at)
			}
			if at += s.Line.Size; !s.Line.Torn {
				if file[at] != '\n' {
					t.Fatalf("line %d ends at %d, there is %q", s.Number, at, file[at])
				}
				at++
			}
			if most := max(s.limit+int64(s.chunk), 2*int64(s.chunk)); int64(len(s.buf)) > most {
				t.Fatalf("%d bytes of memory, the bound is %d", len(s.buf), most)
			}
		}
		if s.Err != nil || at != size {
			t.Fatalf("lines of %d bytes of %d (%v)", at, size, s.Err)
		}
		b := BackScanner{chunk: int(chunk) + 1}
		b.Reset(bytes.NewReader(file), size, int64(limit))
		for b.Next() {
			backward = append(backward, foundOf(&b.Line))
		}
		slices.Reverse(backward)
		if b.Err != nil || !slices.Equal(forward, backward) {
			t.Fatalf("forward %v\nbackward %v (%v)", forward, backward, b.Err)
		}
	})
}
