package line

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"testing"
	"unsafe"

	"crabmem/fuzz/race"
	"crabmem/sessionlog/record"
)

// TestDuplicateKeys decodes lines in which a key occurs twice. The record has the
// first value.
func TestDuplicateKeys(t *testing.T) {
	for k := KeyCompact; k <= keyProject; k++ {
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

// sampleLines are lines and parts of lines of each kind.
var sampleLines = []string{
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

// TestRecordReuse decodes each line with a record of each other line. The record
// equals a new one.
func TestRecordReuse(t *testing.T) {
	lines := append([]string{"{\"role\":\"user\",\"content\":\"\xff\"}", `{"meta":{"title":"a","uptime_secs":1}`, "too long"}, sampleLines...)
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
