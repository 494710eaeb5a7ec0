package cron_test

import (
	"strings"
	"testing"

	"crabmem/daemon/cron"
)

// TestSetFailures writes an entry's failures, and changes no other line in the file.
func TestSetFailures(t *testing.T) {
	for name, text := range map[string]string{
		"comments":    "# mine\n[[cron]] # first\nid = 1\nschedule = '0 9 * * *' # early\nskill = 'a'\n\n# next\n[[cron]]\nid = 2\nschedule = '0 9 * * *'\nskill = 'b'\n",
		"no line end": "[[cron]]\nid = 1\nschedule = '0 9 * * *'\nskill = 'a'",
		"bound":       "[[cron]]\nid = 1\nschedule = '0 9 * * *'\nskill = 'a'\nsession = 3\nsession_file = 'x_1'\n",
	} {
		m := newHome(t, text)
		table := open(t, m)
		if name == "bound" {
			if err := table.Bind(1, 9, "x_1"); err != nil {
				t.Fatal(err)
			}
		}
		for _, n := range []int{1, 3} {
			if err := table.SetFailures(1, n); err != nil {
				t.Fatal(err)
			}
			if c := open(t, m.Crash()).List()[0]; c.Failures != n {
				t.Errorf("%s: %d failures in the file, want %d", name, c.Failures, n)
			}
		}
		if c := table.List()[0]; name == "bound" && c.Session != 9 {
			t.Errorf("the entry lost its session: %+v", c)
		}
		if err := table.SetFailures(1, 0); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSuffix(file(t, m), "\n"); got != strings.TrimSuffix(text, "\n") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestFailuresInText keeps a text that looks like the key.
func TestFailuresInText(t *testing.T) {
	m := newHome(t, "[[cron]]\nid = 1\nschedule = '0 9 * * *'\nskill = 'a'\nargs = '''\nfailures = 7\n'''\n")
	table := open(t, m)
	if err := table.SetFailures(1, 2); err != nil {
		t.Fatal(err)
	}
	if c := open(t, m).List()[0]; c.Failures != 2 || c.Args != "failures = 7\n" {
		t.Errorf("%+v", c)
	}
	if err := table.SetFailures(2, 2); err == nil || err.Error() != (&cron.NotFoundError{ID: 2}).Error() {
		t.Error(err)
	}
}
