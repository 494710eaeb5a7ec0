package cron

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// tableOf opens a table of a file with the given text.
func tableOf(t *testing.T, text string) (*Table, *faultfs.Mem) {
	t.Helper()
	m := faultfs.NewMem()
	m.WriteFile("/crons.toml", []byte(text), 0o600)
	table, err := Open(m, "/crons.toml")
	if err != nil {
		t.Fatal(err)
	}
	return table, m
}

// TestLargestWrite creates an entry so that the file has the maximum size, or one
// byte more.
func TestLargestWrite(t *testing.T) {
	race.Skip(t)
	c := Cron{ID: 1, Schedule: "@daily", Skill: "s"}
	room := maxFile - len(c.encode())
	for size, want := range map[int]string{
		room - 1: "<nil>", room: "<nil>",
		room + 1: "/crons.toml would have 1048577 bytes, more than the limit of 1048576: remove entries first",
	} {
		table, m := tableOf(t, "[[cron]]\n"+strings.Repeat("x", size-11)+"\n\n") // an invalid entry
		_, err := table.Create(c)
		if fmt.Sprint(err) != want {
			t.Errorf("after %d bytes: %v, want %s", size, err, want)
		}
		if fi, serr := m.Lstat("/crons.toml"); serr != nil || fi.Size() != int64(size+len(c.encode())) && err == nil || fi.Size() != int64(size) && err != nil {
			t.Errorf("after %d bytes: a file of %v, %v", size, fi, serr)
		}
	}
}

// TestCommentsAtStart deletes the first entry of files that begin with comments.
func TestCommentsAtStart(t *testing.T) {
	entry := "[[cron]]\nid = 1\nschedule = '@daily'\nskill = 's'\n"
	for above, want := range map[string]string{
		"": "", "# a\n": "", "# a\n# b\n": "", "# a\n# b\n# c\n": "", "\n# a\n# b\n": "\n", "# a\n\n# b\n# c\n": "# a\n\n", "x = 1\n# a\n# b\n": "x = 1\n", "# a\n# b\n\n": "# a\n# b\n\n",
	} {
		table, m := tableOf(t, above+entry)
		if err := table.Delete(1); err != nil {
			t.Error(err)
		}
		if b, err := vfs.ReadFile(m, "/crons.toml", 1000); err != nil || string(b) != want {
			t.Errorf("after %q: %q, %v, want %q", above, b, err, want)
		}
	}
}

// TestLinesOfKeys checks the lines of warnings about entries whose texts contain
// lines that look like keys.
func TestLinesOfKeys(t *testing.T) {
	for text, want := range map[string]int{
		"args = '''\n= x\n'''\nskill = '/'\n": 6, "args = '''\nskills = x\n'''\nskill = '/'\n": 6, "args = '''\nskill x\n'''\n  skill  =  '/'\n": 6, "skill = '/'\n": 3,
	} {
		table, _ := tableOf(t, "[[cron]]\nid = 1\n"+text+"schedule = '@daily'\n")
		if w := table.Warnings(); len(w) != 1 || w[0].Line != want || !strings.HasPrefix(w[0].Message, "invalid skill '/'") {
			t.Errorf("%q: %v, want line %d", text, w, want)
		}
	}
}

// TestSkillCharacters checks each character in the name of a skill.
func TestSkillCharacters(t *testing.T) {
	const valid = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
	for r := rune(0); r < 300; r++ {
		for _, skill := range []string{string(r), "m" + string(r), string(r) + "m"} {
			c := Cron{Schedule: "@daily", Skill: skill}
			if err := c.Check(); (err == nil) != strings.ContainsRune(valid, r) {
				t.Errorf("skill %q: %v", skill, err)
			}
		}
	}
}

// TestYears checks the first and the last year of a schedule.
func TestYears(t *testing.T) {
	for year, want := range map[string]string{
		"1969": "year '1969' is not between 1970 and 9999", "1970": "it is never due", "9999": "", "0": "year '0' is not between 1970 and 9999", "*/9999": "", "10000": "year '10000' is not a valid value",
	} {
		_, err := Next("0 0 0 1 1 * "+year, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.UTC)
		if text := fmt.Sprint(err); want == "" && err != nil || want != "" && text != "invalid cron schedule '0 0 0 1 1 * "+year+"': "+want {
			t.Errorf("year %s: %s, want %q", year, text, want)
		}
	}
}

// TestTimezones checks names of time zones, the longest included.
func TestTimezones(t *testing.T) {
	for _, name := range []string{"Mars/Base", "..", strings.Repeat("x", 64)} {
		c := Cron{Schedule: "@daily", Skill: "s", Timezone: name}
		want := fmt.Sprintf("invalid timezone '%s': it must be one like Europe/Berlin", name)
		if err := c.checkFires(); err == nil || err.Error() != want {
			t.Errorf("timezone %s: %v", name, err)
		}
		if at, err := c.Next(time.Unix(0, 0)); err == nil || err.Error() != want || !at.IsZero() {
			t.Errorf("timezone %s: next at %v, %v", name, at, err)
		}
		c.QuietStart, c.QuietEnd = "00:00", "23:59"
		if c.Quiet(time.Unix(0, 0)) {
			t.Errorf("timezone %s: quiet", name)
		}
	}
	for n, ok := range map[int]bool{63: true, 64: true, 65: false} {
		name := "Europe" + strings.Repeat("/", n-len("EuropeBerlin")) + "Berlin"
		if _, err := time.LoadLocation(name); err != nil {
			t.Skip("SKIPPED: the system has no directory of time zones")
		}
		if loc, err := (&Cron{Timezone: name}).Location(); (err == nil) != ok || ok && loc.String() != name {
			t.Errorf("a time zone of %d bytes: %v, %v", n, loc, err)
		}
	}
}

// TestTwoTables reads an entry with a second table, whose name has an escape.
func TestTwoTables(t *testing.T) {
	entry := "[[cron]]\nid = 1\nschedule = '@daily'\nskill = 's'\n"
	table, _ := tableOf(t, "\n"+entry+strings.Replace(entry, "cron", `"cr\u006fn"`, 1))
	want := "[/crons.toml:2: the entry is not one [[cron]] table; ignored the entry]"
	if w := fmt.Sprint(table.Warnings()); w != want || len(table.List()) != 0 {
		t.Errorf("warnings %s, want %s; entries %v", w, want, table.List())
	}
}

// TestQuote quotes values with invalid and control characters, and long values.
func TestQuote(t *testing.T) {
	for value, want := range map[string]string{
		"": "''", "a b": "'a b'", "a\xff\xfeb": "'a\ufffdb'", "\x00\x1f\x7f\u0080": "'\ufffd\ufffd\ufffd\u0080'", "\xff\n\xff": "'\ufffd\ufffd\ufffd'",
		strings.Repeat("é", 80): "'" + strings.Repeat("é", 80) + "'", strings.Repeat("é", 81): "'" + strings.Repeat("é", 79) + "…'",
	} {
		if got := quote(value); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}
