package analysis

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestSpans finds the times that texts name. A range is written as its first and last
// day.
func TestSpans(t *testing.T) {
	now := time.Date(2026, 3, 18, 23, 30, 0, 0, time.UTC) // a Wednesday
	for text, want := range map[string]string{
		"what did I book on 14 March":           "14 of month 3",
		"March 14th, and the 3rd of November":   "14 of month 3; 3 of month 11",
		"on 5 February":                         "5 of month 2",
		"MARCH 28, 2026":                        "2026-03-28..2026-03-28",
		"on 2026-03-14T10:00":                   "2026-03-14..2026-03-14",
		"14.03.2026":                            "2026-03-14..2026-03-14",
		"15 March 2026":                         "2026-03-15..2026-03-15",
		"March-15-2024":                         "2024-03-15..2024-03-15",
		"in April":                              "month 4",
		"June harvest in the garden":            "month 6",
		"in March of 2026 and in July 2025":     "2026-03-01..2026-03-31; 2025-07-01..2025-07-31",
		"am 3. März, en mayo":                   "3 of month 3; month 5",
		"2 de enero":                            "2 of month 1",
		"4 sept, 5 dec":                         "4 of month 9; 5 of month 12",
		"in 2025, since 2024":                   "2025-01-01..2025-12-31; 2024-01-01..2024-12-31",
		"yesterday or today":                    "2026-03-17..2026-03-17; 2026-03-18..2026-03-18",
		"last week, this week":                  "2026-03-09..2026-03-15; 2026-03-16..2026-03-22",
		"last month, this month":                "2026-02-01..2026-02-28; 2026-03-01..2026-03-31",
		"last year":                             "2025-01-01..2025-12-31",
		"Last March, this March, last February": "2025-03-01..2025-03-31; 2026-03-01..2026-03-31; 2026-02-01..2026-02-28",
		"last Wednesday, last Tuesday":          "2026-03-11..2026-03-11; 2026-03-17..2026-03-17",
		"two weeks ago":                         "2026-03-01..2026-03-07",
		"a day ago, 3 days ago":                 "2026-03-17..2026-03-17; 2026-03-15..2026-03-15",
		"one month ago":                         "2026-02-03..2026-03-05",
		"2 years earlier":                       "2023-09-17..2024-09-17",

		"may I march on, the mayo and mars":     "",
		"an august person":                      "",
		"5 out of 10, 2 set points, 3 mars":     "3 of month 3",
		"45 March":                              "",
		"version 2025, 2025 entries, room 14":   "",
		"2026-13-40":                            "",
		"last train, this idea, last":           "",
		"two weeks before the trip, two, a day": "",
		"3/4/2026":                              "",
		"":                                      "",
		"the 31":                                "",
		"14 of":                                 "",
		strings.Repeat("x", maxSpanText) + " in April": "",
		strings.Repeat("in April ", 20):                strings.TrimSuffix(strings.Repeat("month 4; ", maxSpans), "; "),
	} {
		var got []string
		for _, s := range Spans(text, now) {
			line := s.From.Format(time.DateOnly) + ".." + s.To.AddDate(0, 0, -1).Format(time.DateOnly)
			if s.From.IsZero() {
				line = fmt.Sprint("month ", s.Month)
				if s.Day > 0 {
					line = fmt.Sprint(s.Day, " of ", line)
				}
			}
			got = append(got, line)
		}
		if got := strings.Join(got, "; "); got != want {
			t.Errorf("%.60q: %q, want %q", text, got, want)
		}
	}
}

func TestSpanCovers(t *testing.T) {
	at := func(text string) time.Time {
		v, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		span, time string
		want       bool
	}{
		{"14 March", "2019-03-14T23:59:59Z", true},
		{"14 March", "2019-03-15T00:00:00Z", false},
		{"14 March", "2019-03-14T23:30:00-05:00", false}, // the next day in UTC
		{"14 March", "2019-04-14T00:00:00Z", false},
		{"in April", "2020-04-30T12:00:00Z", true},
		{"in April", "2020-05-01T00:00:00Z", false},
		{"April 2026", "2026-04-01T00:00:00Z", true},
		{"April 2026", "2025-04-01T00:00:00Z", false},
		{"April 2026", "2026-05-01T00:00:00Z", false},
	} {
		if got := Spans(c.span, time.Time{})[0].Covers(at(c.time)); got != c.want {
			t.Errorf("%s covers %s: %v", c.span, c.time, got)
		}
	}
}

func TestDay(t *testing.T) {
	for text, want := range map[string]string{
		"2026-03-14": "2026-03-14", "March-15-2024": "2024-03-15", "14 March 2026, in Lisbon": "2026-03-14",
		"14 March": "", "March 2026": "", "": "", "2026": "", "soon": "",
	} {
		day, ok := Day(text)
		if ok != (want != "") || ok && day.Format(time.DateOnly) != want {
			t.Errorf("%q: %v, %v, want %q", text, day, ok, want)
		}
	}
}

// FuzzSpans checks that spans are valid.
func FuzzSpans(f *testing.F) {
	f.Add("two weeks ago, last March, 14.03.2026, 31 dec", int64(1773873000))
	f.Fuzz(func(t *testing.T, text string, now int64) {
		for _, s := range Spans(text, time.Unix(now%1e11, 0)) {
			if s.From.IsZero() && (s.Month < 1 || s.Month > 12 || s.Day < 0 || s.Day > 31) || !s.From.IsZero() && !s.From.Before(s.To) {
				t.Errorf("%q: %+v", text, s)
			}
		}
	})
}
