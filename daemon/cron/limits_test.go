package cron_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"crabmem/daemon/cron"
)

// TestFileEdges compares what is left of files at the limits, after the first entry
// is removed.
func TestFileEdges(t *testing.T) {
	entry := func(id int) string {
		return fmt.Sprintf("[[cron]]\nid = %d\nschedule = '0 9 * * *'\nskill = 'report'\nsession = 3\nonce = false\n", id)
	}
	const limit = 128 << 10 // of the text before the first entry
	for title, c := range map[string]struct{ before, want, warning string }{
		"comments":                    {"# first\n" + entry(1) + "# a\n# b\n" + entry(2), "# a\n# b\n" + entry(2), ""},
		"comments of the file":        {"# file\n\n# first\n" + entry(1) + "# a\n\n# b\n" + entry(2), "# file\n\n# b\n" + entry(2), ""},
		"two headers":                 {"# a\n[[cron]]\n" + entry(1) + entry(2), "# a\n[[cron]]\n" + entry(2), "ignored the entry"},
		"a long head":                 {"a = 1 #" + strings.Repeat("x", limit-8) + "\n" + entry(1), "a = 1 #" + strings.Repeat("x", limit-8) + "\n", "1: ignored the text before"},
		"a long head with an error":   {"a = #" + strings.Repeat("x", limit-6) + "\n" + entry(1), "a = #" + strings.Repeat("x", limit-6) + "\n", "1: unexpected"},
		"a longer head with an error": {"a = #" + strings.Repeat("x", limit-5) + "\n" + entry(1), "a = #" + strings.Repeat("x", limit-5) + "\n", "1: ignored the text before"},
	} {
		m := newHome(t, c.before)
		table := open(t, m)
		if got := fmt.Sprint(table.Warnings()); !strings.Contains(got, c.warning) || (got == "[]") != (c.warning == "") {
			t.Errorf("%s: warnings %.300s, want %s", title, got, c.warning)
		}
		if err := table.Delete(1); err != nil {
			t.Errorf("%s: %v", title, err)
		}
		if got := file(t, m); got != c.want {
			t.Errorf("%s: %.300q is left, want %.300q", title, got, c.want)
		}
	}
}

// TestScheduleRanges compares which ranges are valid.
func TestScheduleRanges(t *testing.T) {
	for schedule, want := range map[string]string{
		"1-1 * * * *": "<nil>", "2-1 * * * *": "ends before it begins", "* 7-5 * * *": "ends before it begins", "* * * * 7-5": "<nil>", "* * * * 6-5": "ends before it begins", "* * * * 7-7": "<nil>",
	} {
		if _, err := cron.Next(schedule, time.Unix(0, 0), time.UTC); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %s", schedule, err, want)
		}
		if _, err := (&cron.Cron{Schedule: schedule, Timezone: "UTC"}).Next(time.Unix(0, 0)); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("the entry with %s: %v, want %s", schedule, err, want)
		}
	}
}

// TestSessionFiles compares which names of sessions an entry may have.
func TestSessionFiles(t *testing.T) {
	for name, ok := range map[string]bool{"a.b": true, "é": true, ".a": false, "a/b": false, `a\b`: false, "a\x00": false, strings.Repeat("x", 1024): true, strings.Repeat("x", 1025): false} {
		table := open(t, newHome(t, ""))
		if _, err := table.Create(cron.Cron{Schedule: "@daily", Skill: "s", SessionFile: name}); (err == nil) != ok {
			t.Errorf("%.20q of %d bytes: %v", name, len(name), err)
		}
	}
}
