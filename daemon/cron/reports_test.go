package cron_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/cron"
	"crabmem/fuzz/golden"
)

// brief writes a long run of one byte as its length.
func brief(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		n := 1
		for n < len(s) && s[n] == s[0] {
			n++
		}
		if n > 20 {
			fmt.Fprintf(&b, "%c{%d}", s[0], n)
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// state describes a table.
func state(table *cron.Table) string {
	list, err := json.Marshal(table.List())
	if err != nil {
		return err.Error()
	}
	text := string(list)
	for _, w := range table.Warnings() {
		text += "\n" + w.String()
	}
	return brief(text)
}

// describe is an error with what callers look for in it.
func describe(err error) string {
	text := fmt.Sprint(err)
	if _, ok := errors.AsType[*cron.InvalidError](err); ok {
		text += " [invalid]"
	}
	if e, ok := errors.AsType[*cron.NotFoundError](err); ok {
		text += fmt.Sprintf(" [not found %d]", e.ID)
	}
	for _, e := range []error{fs.ErrNotExist, fs.ErrPermission, syscall.EIO} {
		if errors.Is(err, e) {
			text += fmt.Sprintf(" [%v]", e)
		}
	}
	return brief(text)
}

// entry is an entry of a file. Its lines replace the usual ones of their keys.
func entry(id int, lines ...string) string {
	text := "[[cron]]\n"
	for _, line := range []string{fmt.Sprintf("id = %d", id), "schedule = '0 9 * * *'", "skill = 'report'", "session = 3", "once = false"} {
		key, _, _ := strings.Cut(line, " ")
		for _, l := range lines {
			if strings.HasPrefix(l, key+" ") {
				line = ""
			}
		}
		if line != "" {
			text += line + "\n"
		}
	}
	return text + strings.Join(lines, "\n") + "\n"
}

// reportFiles are texts of a file.
func reportFiles() [][2]string {
	var list [][2]string
	add := func(title, text string) { list = append(list, [2]string{title, text}) }
	quoted := func(n int) string { return "'" + strings.Repeat("x", n) + "'" }
	lines := []string{
		"", "id = 0", "id = -1", "id = 9223372036854775807", "id = 9223372036854775808", "id = 18446744073709551615", "id = 'a'", "  id=7", "session = -1", "session = 9223372036854775807",
		"session_file = 'a/b'", "session_file = 'a\\b'", "session_file = '.a'", "session_file = 'a.b'", "session_file = 'é'", "session_file = \"\\u0000\"",
		"quiet_start = '24:00'", "quiet_start = '23:59'", "quiet_start = '7:00'", "quiet_end = '07:60'", "quiet_end = '07:59'", "quiet_end = 'x'", "timezone = 'Europe/Berlin'", "timezone = 'Mars'",
		"once = true", "once = 1", "other = 1", "args = \"a\\u0000b\"", "args = '\xff'", "args = 'a", "= 3", "skill = ''", "skill = 'A_z-09'", "skill = '/a'", "skill = 'é'", "skill = 'a:'", "skill = 'a@'", "skill = 'a`'", "skill = 'a{'", "skill = 'a['",
		"schedule = ''", "schedule = 'x'", "# comment\nargs = 'a'\n# below\n\n", "\r\nargs = 'a'\r", "[cron.sub]\na = 1", "[other]\na = 1",
		"schedule = \"" + `\u0001\u007f\u0080` + "\"",
	}
	for _, n := range []int{78, 79, 80, 81, 82, 127, 128, 129, 254, 255, 256, 257, 1023, 1024, 1025, 16383, 16384, 16385} {
		lines = append(lines, "skill = "+quoted(n), "session_file = "+quoted(n), "args = "+quoted(n), "schedule = "+quoted(n))
	}
	for _, n := range []int{62, 63, 64, 65} {
		lines = append(lines, "timezone = 'Europe/Berlin"+strings.Repeat("/", n-13)+"'", "timezone = "+quoted(n), "schedule = '"+strings.Repeat("é", n+14)+"'", "schedule = '0 9 * * 1"+strings.Repeat(",1", n+90)+"'")
	}
	for _, line := range lines {
		add(fmt.Sprintf("line %.40q %d", line, len(line)), "# head\n\n# first\n"+entry(2, line)+"\n# second\n"+entry(5))
		add(fmt.Sprintf("last line %.40q %d", line, len(line)), entry(5)+"\n# about it\n"+strings.TrimSuffix(entry(2, line), "\n"))
	}
	for _, head := range []string{"a = 1\n", "a = \n", "a\n# x\n", "# only\n", "\n\n", "# x\n\n# y\n", "\ufeff", "[other]\na = 1\n", "[[other]]\n", "x = 1\n\n\ny\n"} {
		add(fmt.Sprintf("head %q", head), head+entry(1)+"#c\n"+entry(2))
	}
	for _, header := range []string{"[[cron]]", " [[ cron ]] # x", "[[\"cron\"]]", "[['cron']]", "[[cron]] x", "[[crons]]", "[cron]", "[[cron]]\r", "\t[[cron]]\t", "[[cron", "#[[cron]]", "#a\n#b\n[[cron]]", "#a\n\n#b\n[[cron]]", "#a\nb = 1\n[[cron]]"} {
		add(fmt.Sprintf("header %q", header), entry(1)+strings.Replace(entry(2), "[[cron]]", header, 1)+entry(3))
	}
	for _, n := range []int{-1, 0, 1} {
		size := 128<<10 + n
		add(fmt.Sprintf("entry of limit %+d", n), entry(1)+entry(2)+"#"+strings.Repeat("x", size-len(entry(2))-1))
		add(fmt.Sprintf("entry of limit %+d in lines", n), entry(1)+"# a\n# b\n"+entry(2)+strings.Repeat("#\n", (size-len(entry(2))-8)/2))
		add(fmt.Sprintf("head of limit %+d", n), "#"+strings.Repeat("x", size-2)+"\n"+entry(1))
		add(fmt.Sprintf("head of limit %+d and an error", n), "a= #"+strings.Repeat("x", size-5)+"\n"+entry(1))
		add(fmt.Sprintf("head of limit %+d and a key", n), "a=1 #"+strings.Repeat("x", size-6)+"\n"+entry(1))
		add(fmt.Sprintf("file of limit %+d", n), entry(1)+strings.Repeat(entry(2)+"#"+strings.Repeat("y", 100_000)+"\n", 10)+"#"+strings.Repeat("z", 1<<20+n-11*len(entry(1))-10*100_002-1))
	}
	for _, n := range []int{999, 1000, 1001} {
		var b strings.Builder
		for i := range n {
			b.WriteString(entry(i + 1))
		}
		add(fmt.Sprintf("%d entries", n), b.String())
	}
	add("same ids", entry(4)+entry(4)+entry(4)+entry(1))
	add("empty", "")
	for _, between := range []string{"", "# c\n", "\n", "# c\n\n", "[[cron]]\n"} {
		add(fmt.Sprintf("two headers, %q", between), "# a\n[[cron]]\n"+between+entry(2)+entry(5))
		add(fmt.Sprintf("two headers after a comment, %q", between), "# a\n[[cron]]\n"+between+"# b\n"+entry(2)+entry(5))
	}
	for _, end := range []string{"", "\n", "\n\n", "\r\n", "\n\r\n", " "} {
		add(fmt.Sprintf("end %q", end), strings.TrimSuffix(entry(1), "\n")+end)
	}
	return list
}

// uses are what is done with a table.
var uses = []struct {
	name string
	do   func(table *cron.Table) string
}{
	{"create", func(table *cron.Table) string {
		c, err := table.Create(cron.Cron{Schedule: "@daily", Skill: "made", Args: "a b", Once: true})
		return fmt.Sprintf("%+v %s", c, describe(err))
	}},
	{"delete", func(table *cron.Table) string {
		return describe(table.Delete(2)) + describe(table.Delete(2)) + describe(table.Delete(0))
	}},
	{"bind", func(table *cron.Table) string {
		return describe(table.Bind(2, 77, "")) + describe(table.Bind(2, 78, "named")) + describe(table.Bind(9, 1, "x")) + describe(table.Bind(2, 1, "a/b")) +
			describe(table.Bind(2, math.MaxInt64+1, "y")) + describe(table.Bind(5, 79, "other"))
	}},
	{"reload", func(table *cron.Table) string { return describe(table.Reload()) }},
}

// TestReportsOfFiles compares how each file is read, and what each use leaves.
func TestReportsOfFiles(t *testing.T) {
	var r golden.Reports
	for _, f := range reportFiles() {
		table, err := cron.Open(newHome(t, f[1]), path)
		text := describe(err) + "\n" + state(table) + "\n"
		if err != nil {
			r.Add(f[0], text)
			continue
		}
		for _, use := range uses {
			m := newHome(t, f[1])
			table := open(t, m)
			text += use.name + " " + use.do(table) + "\n"
			if f[1] != "" || use.name == "create" {
				after := file(t, m)
				if len(after) > 5000 {
					after = fmt.Sprintf("%d bytes, %q", len(after), after[len(after)-100:])
				}
				text += brief(after)
			}
			if len(f[1]) < 5000 {
				text += "\n" + state(table) + "\n" + state(open(t, m)) + "\n"
			}
		}
		r.Add(f[0], text)
	}
	r.Compare(t, "testdata/reports/files.txt.gz")
}

// TestReportsOfFailedCalls compares each use of a table if one of its calls of
// the file system fails, and the use after it.
func TestReportsOfFailedCalls(t *testing.T) {
	var r golden.Reports
	for _, edited := range []bool{false, true} {
		for _, use := range uses {
			for _, fault := range []error{syscall.EIO, fs.ErrPermission, fs.ErrNotExist, &faultfs.Fault{Err: syscall.EIO, Done: true}} {
				for n := 1; ; n++ {
					m := newHome(t, "# c\n"+entry(2)+entry(5))
					table := open(t, m)
					if edited {
						m.WriteFile(path, []byte("# edited\n"+entry(2, "args = 'x'")+entry(5)+entry(8)), 0o600)
					}
					seen, which := 0, ""
					m.Hook = func(c faultfs.Call) error {
						if seen++; seen == n {
							which = c.Op
							return fault
						}
						return nil
					}
					text := use.do(table) + "\n" + state(table) + "\n"
					m.Hook = nil
					r.Add(fmt.Sprintf("%s, edited %v, %s: %v", use.name, edited, which, fault), text+use.do(table)+state(table)+file(t, m))
					if which == "" {
						break
					}
				}
			}
		}
	}
	r.Compare(t, "testdata/reports/failed.txt.gz")
}

// TestReportsOfSchedules compares when schedules are due, or why they are invalid.
func TestReportsOfSchedules(t *testing.T) {
	var r golden.Reports
	start := time.Date(2027, 3, 27, 23, 59, 30, 0, time.UTC)
	zones := []*time.Location{time.UTC, place(t, "Europe/Berlin"), place(t, "Australia/Lord_Howe"), place(t, "America/St_Johns")}
	due := func(schedule string, times int) {
		var text string
		for _, zone := range zones {
			at := start
			for range times {
				next, err := cron.Next(schedule, at, zone)
				if err != nil {
					text += describe(err) + "\n"
					break
				}
				text += next.Format(time.RFC3339Nano) + " "
				at = next
			}
		}
		r.Add(fmt.Sprintf("schedule %.60q %d", schedule, len(schedule)), text)
	}
	items := []string{"*", "?", "??", "?/2", "*/2", "*/0", "*/1", "0", "1", "5", "7", "6", "8", "12", "13", "23", "24", "28", "31", "32", "59", "60", "*/59", "*/60", "2-1", "1-1", "1-2", "7-1", "7-5", "6-1", "0-7", "1-7/2", "5/2",
		"L", "15W", "0W", "32W", "31W", "1L", "7L", "8L", "5#1", "5#5", "5#6", "7#0", "1,2", "1,", "a", "-1", "1-", "/2", "1/", "12345", "mon", "sun-tue", "feb", "jan-mar", "1,mon,9", "2027", "1969", "9999", "2030/2", "*-3", "1-32", "0-1"}
	for field := range 7 {
		for _, item := range items {
			parts := []string{"0", "30", "2", "*", "*", "*", "*"}
			parts[field] = item
			due(strings.Join(parts, " "), 3)
			if field > 0 && field < 6 {
				due(strings.Join(parts[1:6], " "), 2)
			}
		}
	}
	for _, schedule := range []string{"", " ", "*", "@daily", "@never", "@", "@hourly x", "* * * *", "* * * * *", "* * * * * *", "* * * * * * *", "* * * * * * * *", "0 9 * * * 2027", "0 9 * * 2027", "* * * * *\n", "\x00", "\r",
		"0 0 30 2 *", "0 0 29 2 *", "0 0 31 4,6 *", "0 0 1 1 * ", "0 0 0 1 1 * 2026", "0 0 0 1 1 * 2028", "*/7 * * * *", "0 * * * *", "15 */1 * * *", "30 0-3 * * *", "0 30 2 * * *", "30 1 * * *", "0 */2 * * *", "45 2 28 3 *", "0 3 28 3 *", "59 1 * * *",
		"0 9" + strings.Repeat(" ", 247) + "* * *", "0 9" + strings.Repeat(" ", 248) + "* * *", "0 9" + strings.Repeat(" ", 249) + "* * *"} {
		due(schedule, 6)
	}
	start = time.Date(2027, 10, 30, 22, 0, 0, 0, time.UTC)
	for _, schedule := range []string{"*/20 * * * *", "30 2 * * *", "0 3 * * *", "30 1,2,3 * * *", "0 * * * *", "0 0 * * *", "59 23 * * *", "30 0 * * *"} {
		due(schedule, 9)
	}
	hours := []string{"", "0:00", "01:59", "02:30", "23:00", "23:59"}
	for _, from := range hours {
		for _, to := range hours {
			for _, schedule := range []string{"30 2 * * *", "*/30 * * * *", "59 59 1 * * *", "0 0 30 2 *"} {
				for _, zone := range []string{"Europe/Berlin", "Mars/Base"} {
					c := cron.Cron{Schedule: schedule, QuietStart: from, QuietEnd: to, Timezone: zone}
					var text string
					for _, at := range []time.Time{start, time.Date(2027, 3, 27, 22, 0, 0, 0, time.UTC)} {
						for range 4 {
							next, err := c.Next(at)
							if err != nil {
								text += describe(err) + " " + next.String() + "\n"
								break
							}
							text += next.Format(time.RFC3339Nano) + " "
							at = next
						}
						for m := range 30 {
							if c.Quiet(at.Add(time.Duration(m) * 13 * time.Minute)) {
								text += fmt.Sprint(m, " ")
							}
						}
					}
					r.Add(fmt.Sprintf("quiet %s to %s in %s, %s", from, to, zone, schedule), text)
				}
			}
		}
	}
	r.Compare(t, "testdata/reports/schedules.txt.gz")
}
