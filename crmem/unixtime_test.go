package crmem

import (
	"encoding/json"
	"testing"
	"time"
)

// TestUnixTime writes and reads times as JSON, and writes days in zones.
func TestUnixTime(t *testing.T) {
	for at, want := range map[UnixTime]string{
		0: "1970-01-01T00:00:00Z", 1776205800: "2026-04-14T22:30:00Z", MaxDate: "9999-12-31T23:59:59Z",
		MaxDate + 1: "@253402300800", 1<<64 - 1: "@18446744073709551615",
	} {
		b, err := json.Marshal(at)
		if err != nil || string(b) != `"`+want+`"` {
			t.Errorf("%d: %s, %v, want %s", uint64(at), b, err, want)
		}
		var back UnixTime
		if err := json.Unmarshal(b, &back); err != nil || back != at {
			t.Errorf("%s: %d, %v, want %d", b, uint64(back), err, uint64(at))
		}
	}
	var seconds UnixTime
	if err := json.Unmarshal([]byte("1776205800"), &seconds); err != nil || seconds != 1776205800 {
		t.Errorf("a number: %d, %v", uint64(seconds), err)
	}
	for _, text := range []string{`""`, `"@"`, `"@-1"`, `"@18446744073709551616"`, `"2026-04"`, `"1969-12-31T23:59:59Z"`} {
		var at UnixTime
		if err := json.Unmarshal([]byte(text), &at); err == nil {
			t.Errorf("%s: %v, want an error", text, at)
		}
	}
	zone := time.FixedZone("CEST", 2*3600)
	if got := UnixTime(1776205800).Day(zone) + " " + UnixTime(1776205800).Day(time.UTC) + " " + UnixTime(1<<63).Day(zone); got != "2026-04-15 2026-04-14 @9223372036854775808" {
		t.Errorf("days: %s", got)
	}
}
