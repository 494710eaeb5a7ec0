package main

import (
	"regexp"
	"testing"
)

func TestLogLine(t *testing.T) {
	for line, want := range map[string]string{
		`{"time":"2026-04-14T10:23:45.123456789Z","level":"INFO","msg":"listening","addr":"/run/x","n":3,"err":"no such file","empty":"","list":["a",1]}`: `listening  addr=/run/x  n=3  err="no such file"  empty=""  list=["a",1]`,
		`{"time":"2026-04-14T10:23:45Z","level":"ERROR","msg":"two words","a":"x=y","b":"\"\n","c":12345678901234567890}`:                                 `two words  a="x=y"  b="\"\n"  c=12345678901234567890`,
	} {
		got := logLine([]byte(line))
		at := regexp.MustCompile(`^2026-04-1[345] [0-9]{2}:[0-9]{2}:45 \S+  (INFO |ERROR)  `).FindString(got)
		if at == "" || got[len(at):] != want {
			t.Errorf("logLine(%s)\n got %s\nwant %s", line, got, want)
		}
	}
	for _, line := range []string{"panic: x", "", "{}", `{"time":"2026-04-14T10:23:45Z"}`, `{"time":1,"msg":"x"}`, `{"time":"2026-04-14T10:23:45Z","msg":"x","a":`, `["x"]`} {
		if got := logLine([]byte(line)); got != line {
			t.Errorf("logLine(%q) = %q, want the line", line, got)
		}
	}
}
