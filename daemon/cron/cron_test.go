package cron_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/cron"
	"crabmem/fuzz/race"

	"github.com/google/go-cmp/cmp"
)

const path = "/h/crons.toml"

func newHome(t testing.TB, text string) *faultfs.Mem {
	t.Helper()
	m := faultfs.NewMem()
	if err := vfs.MkdirAll(m, "/h", 0o700); err != nil {
		t.Fatal(err)
	}
	if text != "" {
		m.WriteFile(path, []byte(text), 0o600)
	}
	return m
}

func open(t testing.TB, m *faultfs.Mem) *cron.Table {
	t.Helper()
	table, err := cron.Open(m, path)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func file(t testing.TB, m *faultfs.Mem) string {
	t.Helper()
	b, err := vfs.ReadFile(m, path, 1<<21)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func ids(table *cron.Table) string {
	var list []string
	for _, c := range table.List() {
		list = append(list, fmt.Sprint(c.ID))
	}
	return strings.Join(list, " ")
}

var daily = cron.Cron{Schedule: "0 9 * * *", Skill: "report", Session: 3}

func TestTable(t *testing.T) {
	m := newHome(t, "")
	table := open(t, m)
	full := cron.Cron{
		Schedule: "*/10 * * * * *", Skill: "check-mail", Args: "all \"new\"\n[[cron]]\n# é", Session: 7, SessionFile: "crab_user_1",
		QuietStart: "22:30", QuietEnd: "7:00", Once: true, Timezone: "Europe/Berlin",
	}
	for i, c := range []cron.Cron{daily, full, daily} {
		c.ID = 99 // not the client's to say
		got, err := table.Create(c)
		c.ID = uint64(i + 1)
		if err != nil || got != c {
			t.Fatalf("created %+v, %v, want %+v", got, err, c)
		}
	}
	if err := table.Delete(3); err != nil {
		t.Fatal(err)
	}
	if c, err := table.Create(daily); err != nil || c.ID != 4 {
		t.Errorf("an id was used again: %+v, %v", c, err)
	}
	if err := table.Delete(3); err == nil || err.Error() != "cron 3 not found" {
		t.Errorf("delete of a missing entry: %v", err)
	} else if nf, ok := errors.AsType[*cron.NotFoundError](err); !ok || nf.ID != 3 {
		t.Errorf("%T", err)
	}
	const want = `[[cron]]
id = 1
schedule = '0 9 * * *'
skill = 'report'
session = 3
once = false

[[cron]]
id = 2
schedule = '*/10 * * * * *'
skill = 'check-mail'
args = "all \"new\"\n[[cron]]\n# é"
session = 7
session_file = 'crab_user_1'
quiet_start = '22:30'
quiet_end = '7:00'
once = true
timezone = 'Europe/Berlin'

[[cron]]
id = 4
schedule = '0 9 * * *'
skill = 'report'
session = 3
once = false
`
	if d := cmp.Diff(want, file(t, m)); d != "" {
		t.Errorf("file (-want +got):\n%s", d)
	}
	if fi, err := m.Lstat(path); err != nil || fi.Mode() != 0o600 {
		t.Errorf("mode: %v, %v", fi, err)
	}
	again := open(t, m.Crash())
	if d := cmp.Diff(table.List(), again.List()); d != "" || len(again.Warnings()) > 0 {
		t.Errorf("after a restart: %s%v", d, again.Warnings())
	}
	if err := table.Delete(1); err != nil || ids(table) != "2 4" {
		t.Errorf("%v, left %s", err, ids(table))
	}
}

func TestHandWritten(t *testing.T) {
	const text = `# about all

# nine o'clock
[[ "cron" ]] # the first
id = 7
schedule = "0 9 * * *"   # daily
skill = "report"
session = 1

# broken
[[cron]]
id = 30
schedule = "0 25 * * *"
skill = "x"
session = 1
# the last
[[cron]]
session = 2
skill = "b"
id = 2
schedule = "@hourly"`
	m := newHome(t, text)
	table := open(t, m)
	if ids(table) != "2 7" {
		t.Errorf("ids %s", ids(table))
	}
	if w := fmt.Sprint(table.Warnings()); w != "[/h/crons.toml:13: invalid cron schedule '0 25 * * *': hour '25' is not between 0 and 23; ignored the entry]" {
		t.Errorf("warnings %s", w)
	}
	c, err := table.Create(daily)
	if err != nil || c.ID != 31 {
		t.Errorf("created %d, %v: an id of the file is reused", c.ID, err)
	}
	added := "\n\n[[cron]]\nid = 31\nschedule = '0 9 * * *'\nskill = 'report'\nsession = 3\nonce = false\n"
	if d := cmp.Diff(text+added, file(t, m)); d != "" {
		t.Errorf("after create (-want +got):\n%s", d)
	}
	if err := table.Delete(30); err == nil {
		t.Error("an entry that is not used was deleted")
	}
	if err := table.Delete(7); err != nil {
		t.Fatal(err)
	}
	first := text[strings.Index(text, "# nine"):strings.Index(text, "# broken")]
	left := strings.Replace(text+added, first, "", 1)
	if d := cmp.Diff(left, file(t, m)); d != "" {
		t.Errorf("after delete (-want +got):\n%s", d)
	}
	if w := table.Warnings(); len(w) != 1 || w[0].Line != 6 {
		t.Errorf("the line has moved to 6: %v", w)
	}
	if err := table.Bind(2, 9, "crab_user_4"); err != nil {
		t.Fatal(err)
	}
	last := left[strings.Index(left, "# the last")+len("# the last\n") : strings.Index(left, added)+1]
	left = strings.Replace(left, last, "[[cron]]\nid = 2\nschedule = '@hourly'\nskill = 'b'\nsession = 9\nsession_file = 'crab_user_4'\nonce = false\n", 1)
	if d := cmp.Diff(left, file(t, m)); d != "" {
		t.Errorf("after bind (-want +got):\n%s", d)
	}
}

func TestWarnings(t *testing.T) {
	entry := func(lines string) string {
		return "[[cron]]\nid = 1\nschedule = '* * * * *'\nskill = 's'\nsession = 1\n" + lines
	}
	for _, c := range []struct{ name, text, want, ids string }{
		{"fine", entry("once = true\n"), "", "1"},
		{"CRLF", strings.ReplaceAll(entry("once = true\n"), "\n", "\r\n"), "", "1"},
		{"indented", strings.ReplaceAll(entry(""), "\n", "\n  "), "", "1"},
		{"unknown key", entry("quiet_strat = '1:00'\n"), "6: unknown key 'quiet_strat'; ignored the entry", ""},
		{"syntax", entry("\nonce =\n") + entry(""), "7: unexpected character U+000A at start of value; ignored the entry", "1"},
		{"type", entry("once = 'yes'\n"), "6: cannot decode TOML string into struct field cron.record.Once of type bool; ignored the entry", ""},
		{"an open string", entry("args = '''\n") + "id = 5\n" + entry(""), "7: multiline literal string not terminated by '''; ignored the entry", "1"},
		{"no id", "[[cron]]\nschedule = '* * * * *'\nskill = 's'\n", "1: id must be a number from 1; ignored the entry", ""},
		{"negative", "# c\n[[cron]]\nschedule = '* * * * *'\nid = -1\n", "4: id must be a number from 1; ignored the entry", ""},
		{"session", strings.Replace(entry(""), "session = 1", "session = -1", 1), "5: session must be a number from 0; ignored the entry", ""},
		{"id twice", entry("") + "\n" + entry(""), "8: same id as the entry in line 1: 1; ignored the entry", "1"},
		{"no skill", strings.Replace(entry(""), "'s'", "''", 1), "4: no skill and no prompt: set one of them; ignored the entry", ""},
		{"a skill like a path", strings.Replace(entry(""), "'s'", "'../s'", 1), "4: invalid skill '../s': it must consist of letters, digits, '-', and '_'; ignored the entry", ""},
		{"quiet", entry("quiet_start = '22:00'\nquiet_end = '24:00'\n"), "7: invalid quiet_end '24:00': it must be a time like 22:30; ignored the entry", ""},
		{"timezone", entry("timezone = '../../etc/passwd'\n"), "6: invalid timezone '../../etc/passwd': it must be one like Europe/Berlin; ignored the entry", ""},
		{"session file", entry("session_file = '../x'\n"), "6: invalid session_file '../x': it must be the name of a session; ignored the entry", ""},
		{"args", entry("args = '" + strings.Repeat("x", 16385) + "'\n"), "6: args has 16385 bytes, more than the limit of 16384; ignored the entry", ""},
		{"head", "a = 1\n" + entry(""), "1: ignored the text before the first [[cron]]", "1"},
		{"broken head", "\na =\n" + entry(""), "2: unexpected character U+000A at start of value; ignored the text before the first [[cron]]", "1"},
		{"list", "cron = [{id = 1}]\n", "1: ignored the text before the first [[cron]]", ""},
		{"another table", entry("[more]\n"), "6: unknown key 'more'; ignored the entry", ""},
		{"a long entry", entry(strings.Repeat("# x\n", 40000)+"\n") + entry(""), "1: 160064 bytes, more than the limit of 131072; ignored the entry", "1"},
		{"a long head", strings.Repeat("# x\n", 40000) + "x = 1\n" + entry(""), "1: ignored the text before the first [[cron]]", "1"},
		{"not UTF-8", entry("args = '\xff'\n") + entry(""), "6: invalid UTF-8 character in literal string; ignored the entry", "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newHome(t, c.text)
			table := open(t, m)
			var got []string
			for _, w := range table.Warnings() {
				got = append(got, strings.TrimPrefix(w.String(), path+":"))
			}
			if s := strings.Join(got, "\n"); s != c.want {
				t.Errorf("warnings\n%s\nwant\n%s", s, c.want)
			}
			if ids(table) != c.ids {
				t.Errorf("ids %s, want %s", ids(table), c.ids)
			}
			if _, err := table.Create(daily); err != nil {
				t.Fatal(err)
			}
			if after := file(t, m); !strings.HasPrefix(after, c.text) {
				t.Errorf("something of the file is lost:\n%s", after)
			}
			if c.want != "" && len(table.Warnings()) != 1 {
				t.Errorf("warnings after a change: %v", table.Warnings())
			}
		})
	}
}

func TestInvalid(t *testing.T) {
	m := newHome(t, "")
	table := open(t, m)
	for want, change := range map[string]func(*cron.Cron){
		"invalid cron schedule 'often': it has 1 fields and must have 5 (minute, hour, day, month, day of the week), or 6 with seconds first": func(c *cron.Cron) { c.Schedule = "often" },
		"invalid cron schedule '0 0 30 2 *': it is never due":                        func(c *cron.Cron) { c.Schedule = "0 0 30 2 *" },
		"invalid quiet_start '25:00': it must be a time like 22:30":                  func(c *cron.Cron) { c.QuietStart, c.QuietEnd = "25:00", "06:00" },
		"invalid quiet_end 'x\ufffd': it must be a time like 22:30":                  func(c *cron.Cron) { c.QuietStart, c.QuietEnd = "21:00", "x\n" },
		"invalid skill '/report': it must consist of letters, digits, '-', and '_'":  func(c *cron.Cron) { c.Skill = "/report" },
		"invalid skill 'r\ufffdé': it must consist of letters, digits, '-', and '_'": func(c *cron.Cron) { c.Skill = "r\xffé" },
		"invalid skill 'r:': it must consist of letters, digits, '-', and '_'":       func(c *cron.Cron) { c.Skill = "r:" },
		"invalid timezone 'Mars/Olympus': it must be one like Europe/Berlin":         func(c *cron.Cron) { c.Timezone = "Mars/Olympus" },
		"args must be text in UTF-8":                                                 func(c *cron.Cron) { c.Args = "\xff" },
		"session 18446744073709551615 is too large":                                  func(c *cron.Cron) { c.Session = math.MaxUint64 },
		"invalid session_file '.x': it must be the name of a session":                func(c *cron.Cron) { c.SessionFile = ".x" },
	} {
		c := daily
		change(&c)
		_, err := table.Create(c)
		if _, ok := errors.AsType[*cron.InvalidError](err); !ok || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	if _, err := m.Lstat(path); err == nil {
		t.Error("something was written")
	}
	c := daily
	c.Skill = "Az09-_"
	if _, err := table.Create(c); err != nil {
		t.Errorf("%s: %v", c.Skill, err)
	}
}

func TestBounds(t *testing.T) {
	race.Skip(t)
	var b strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&b, "[[cron]]\nid = %d\nschedule = '@daily'\nskill = 's'\nsession = 1\n", 2000-i)
	}
	m := newHome(t, b.String())
	table := open(t, m)
	if l := table.List(); len(l) != 1000 || l[0].ID != 1001 || l[999].ID != 2000 {
		t.Errorf("%d entries", len(l))
	}
	if w := table.Warnings(); len(w) != 1 || w[0].Line != 5001 || w[0].Message != "there are more than 1000 entries; ignored the entry" {
		t.Errorf("warnings %v", w)
	}
	if _, err := table.Create(daily); err == nil || err.Error() != "there are 1001 cron entries already: delete some first" {
		t.Errorf("one more: %v", err)
	}
	if err := table.Delete(2000); err != nil || len(table.Warnings()) != 0 || len(table.List()) != 1000 {
		t.Errorf("%v: %d entries, warnings %v", err, len(table.List()), table.Warnings())
	}
	if _, err := cron.Open(newHome(t, strings.Repeat("#", 1<<20+1)), path); err == nil {
		t.Error("a file of more than 1 MiB")
	}
	table = open(t, newHome(t, strings.Repeat("#", 1<<20-10)))
	if _, err := table.Create(daily); err == nil || !strings.Contains(err.Error(), "more than the limit of 1048576") {
		t.Errorf("a file that would have more: %v", err)
	}
	table = open(t, newHome(t, "[[cron]]\nid = 9223372036854775807\nschedule = '@daily'\nskill = 's'\n"))
	if _, err := table.Create(daily); err == nil || ids(table) != "9223372036854775807" {
		t.Errorf("no id is left: %v", err)
	}
	m = newHome(t, "")
	m.WriteFile("/secret", []byte("x"), 0o600)
	m.Symlink("/secret", path)
	if _, err := cron.Open(m, path); !errors.Is(err, vfs.ErrNotRegular) {
		t.Errorf("a link: %v", err)
	}
}

// TestEditedConcurrently changes the file under an open table.
func TestEditedConcurrently(t *testing.T) {
	m := newHome(t, "")
	table := open(t, m)
	for range 2 {
		if _, err := table.Create(daily); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.Bind(2, 77, ""); err != nil {
		t.Fatal(err)
	}
	edited := "# mine\n" + strings.Replace(file(t, m), "'0 9 * * *'", "'0 8 * * *'", 1)
	m.WriteFile(path, []byte(edited), 0o600)
	if table.List()[0].Schedule != "0 9 * * *" {
		t.Error("seen before it was looked for")
	}
	if c, err := table.Create(daily); err != nil || c.ID != 3 || !strings.HasPrefix(file(t, m), edited) {
		t.Errorf("%+v, %v:\n%s", c, err, file(t, m))
	}
	if l := table.List(); l[0].Schedule != "0 8 * * *" || l[1].Session != 77 || l[2].Session != 3 {
		t.Errorf("%+v", l)
	}
	if err := m.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := table.Reload(); err != nil || ids(table) != "" {
		t.Errorf("%v, %s", err, ids(table))
	}
	if c, err := table.Create(daily); err != nil || c.ID != 4 {
		t.Errorf("%+v, %v: an id was used again", c, err)
	}
	if err := table.Bind(9, 1, ""); err == nil || err.Error() != "cron 9 not found" {
		t.Errorf("bind: %v", err)
	}
}

func TestConcurrent(t *testing.T) {
	m := newHome(t, "")
	table := open(t, m)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 {
				c, err := table.Create(daily)
				if err == nil && c.ID%2 == 0 {
					err = table.Delete(c.ID)
				}
				if err != nil {
					t.Error(err)
				}
				table.List()
			}
		})
	}
	wg.Wait()
	if len(table.List()) != 20 || len(open(t, m).List()) != 20 {
		t.Errorf("left %s", ids(table))
	}
}

// TestCrash fails every call of a change, and cuts the power there: the file is
// the old one or the new one, and an acknowledged change is in it.
func TestCrash(t *testing.T) {
	const before = "# c\n[[cron]]\nid = 1\nschedule = '@daily'\nskill = 's'\nsession = 1\n\n[[cron]]\nbroken\n"
	for name, change := range map[string]func(*cron.Table) error{
		"create": func(t *cron.Table) error { _, err := t.Create(daily); return err },
		"delete": func(t *cron.Table) error { return t.Delete(1) },
		"bind":   func(t *cron.Table) error { return t.Bind(1, 2, "crab_user_1") },
	} {
		m := newHome(t, before)
		table := open(t, m)
		first := m.Calls()
		if err := change(table); err != nil {
			t.Fatal(err)
		}
		last, after := m.Calls(), file(t, m)
		broken := errors.New("broken")
		states := map[string]int{}
		for n := first + 1; n <= last+1; n++ {
			for _, all := range []bool{false, true} {
				m := newHome(t, before)
				table := open(t, m)
				m.Hook = func(c faultfs.Call) error {
					if c.N == n || all && c.N > n {
						return broken
					}
					return nil
				}
				err := change(table)
				m.Hook = nil
				if err != nil && !errors.Is(err, broken) {
					t.Errorf("%s, call %d: %v", name, n, err)
				}
				changes := m.Unsynced()
				for _, outcome := range []faultfs.Outcome{faultfs.Lost, faultfs.Kept, faultfs.Zeroed, faultfs.Garbage} {
					outcomes := make([]faultfs.Outcome, len(changes))
					for i := range len(outcomes) + 1 {
						got := file(t, m.Crash(outcomes...))
						states[got]++
						if got != after && (got != before || err == nil) {
							t.Errorf("%s, call %d, error %v: the file is %q", name, n, err, got)
						}
						if i < len(outcomes) {
							outcomes[i] = outcome
						}
					}
				}
				// The table continues from the content of the file.
				if err := table.Reload(); err != nil {
					t.Fatal(err)
				}
				if got, want := ids(table), ids(open(t, m)); got != want {
					t.Errorf("%s, call %d: the table has %s, the file %s", name, n, got, want)
				}
			}
		}
		if states[before] < 10 || states[after] < 10 || len(states) != 2 {
			t.Errorf("%s: %d old, %d new", name, states[before], states[after])
		}
	}
}

func FuzzTable(f *testing.F) {
	f.Add("# a\n[[cron]]\nid = 1\nschedule = '@daily'\nskill = 's'\n\n[[cron]]\nid = 1\n")
	f.Add("[[cron]]\nargs = '''\n[[cron]]\n'''\r\n [['cron']] # x\nid = 3")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<14 {
			return
		}
		m := newHome(t, text)
		table := open(t, m)
		if len(text) > 0 && file(t, m) != text {
			t.Fatal("open wrote")
		}
		before := table.List()
		c, err := table.Create(daily)
		if err != nil {
			return
		}
		if got := file(t, m); !strings.HasPrefix(got, text) {
			t.Fatalf("lost: %q", got)
		}
		if d := cmp.Diff(append(before, c), table.List()); d != "" {
			t.Fatalf("entries (-want +got):\n%s", d)
		}
		if d := cmp.Diff(open(t, m).List(), table.List()); d != "" {
			t.Fatalf("the file says otherwise (-file +table):\n%s", d)
		}
		for _, c := range table.List() {
			if err := table.Delete(c.ID); err != nil {
				t.Fatal(err)
			}
		}
		if len(open(t, m).List()) > 0 && len(before) < 900 {
			t.Fatalf("left: %s", file(t, m))
		}
	})
}
