package usage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
)

// table opens the usage in a directory. The warnings are in the result.
func table(t *testing.T, dir string, now func() time.Time) (*Table, *[]string) {
	t.Helper()
	var warned []string
	return Open(vfs.OS{}, filepath.Join(dir, "usage.json"), now, func(what string, err error) { warned = append(warned, fmt.Sprint(what, ": ", err)) }), &warned
}

var ann = Payer{"crab", "tg:7"}

// TestLimits: a refusal says which limit, until when, and what to do; the first one of a
// day is marked; a new minute and a new day permit runs again.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, _ := table(t, t.TempDir(), time.Now)
		refused := func(l Limits, first bool, message, fix string, wait time.Duration) {
			t.Helper()
			err := u.Admit(ann, l, true)
			e, ok := errors.AsType[*errtable.Error](err)
			if !ok || e.Kind != "limit" || e.HTTP != 429 || !strings.Contains(e.Message, message) || !strings.Contains(e.Fix, fix) {
				t.Fatalf("refused with %#v", err)
			}
			limit := Refused(fmt.Errorf("wrapped: %w", err))
			if limit == nil || limit.First != first || time.Until(limit.Until) != wait {
				t.Errorf("%+v at %v, want first %v, wait %v", limit, time.Now(), first, wait)
			}
			if !strings.HasSuffix(e.Message, limit.Until.Local().Format("until 2006-01-02 15:04:05 MST")) {
				t.Errorf("the message is %q", e.Message)
			}
		}
		admitted := func(l Limits) {
			t.Helper()
			if err := u.Admit(ann, l, true); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Until(tomorrow(time.Now())) - 2*time.Minute)
		day := DayOf(time.Now())
		admitted(Limits{Runs: 2})
		admitted(Limits{Runs: 2})
		refused(Limits{Runs: 2}, true, `limit of 2 runs a minute of agent "crab"`, "runs_per_minute of the agent", time.Minute)
		refused(Limits{Runs: 2}, false, `limit of 2 runs`, "wait until then", time.Minute)
		refused(Limits{OriginRuns: 2}, true, `limit of 2 runs a minute of sender "tg:7"`, "untrusted_runs_per_minute", time.Minute)
		if err := u.Admit(Payer{"crab", "tg:8"}, Limits{OriginRuns: 2}, true); err != nil {
			t.Errorf("another sender: %v", err)
		}
		time.Sleep(time.Minute)
		admitted(Limits{Runs: 2, OriginRuns: 2})
		u.Add(ann, "m", 60, 39)
		admitted(Limits{Tokens: 100})
		u.Add(Payer{"crab", "user"}, "m", 1, 0) // the limit is that of the agent
		u.Add(Payer{"other", "user"}, "m", 5000, 0)
		refused(Limits{Tokens: 100}, true, `limit of 100 tokens a day of agent "crab"`, "tokens_per_day", time.Minute)
		refused(Limits{Tokens: 100}, false, "100 tokens", "config.toml", time.Minute)
		if err := u.Admit(ann, Limits{Tokens: 101}, false); err != nil {
			t.Errorf("a higher limit: %v", err)
		}
		time.Sleep(time.Minute)
		admitted(Limits{Tokens: 100, Runs: 2, OriginRuns: 2})
		u.Add(ann, "m", 100, 0)
		refused(Limits{Tokens: 100}, true, "100 tokens", "tokens_per_day", 24*time.Hour)
		var runs int64
		for _, r := range u.Records() {
			if r.Day == day && r.Agent == "crab" {
				runs += r.Runs
			}
		}
		if runs != 5 { // without the refused ones, and without a check
			t.Errorf("%d runs count on the first day", runs)
		}
	})
}

// reference decides from the list of everything that happened.
type reference struct {
	at     time.Time
	payer  Payer
	tokens int64
	run    bool
}

// TestAdmitModel compares random histories, with clocks that are set and restarts, with
// a recount of the complete history.
func TestAdmitModel(t *testing.T) {
	const steps = 4000
	for seed := range uint64(3) {
		random := rand.New(rand.NewPCG(seed, 1))
		now := time.Date(2026, 3, 28, 20, 0, 0, 0, time.Local)
		dir, clock := t.TempDir(), func() time.Time { return now }
		u, warned := table(t, dir, clock)
		var past []reference
		opened := 0
		refused := 0
		for range steps {
			p := Payer{[]string{"crab", "b"}[random.IntN(2)], []string{"user", "tg:7", "tg:8"}[random.IntN(3)]}
			switch random.IntN(12) {
			case 0:
				now = now.Add(time.Duration(random.IntN(4*3600)) * time.Second)
			case 1, 2, 3, 4:
				now = now.Add(time.Duration(random.IntN(40)) * time.Second)
			case 5, 6, 7:
				n := random.IntN(400)
				u.Add(p, "m", n/2, n-n/2)
				past = append(past, reference{now, p, int64(n), false})
			case 8:
				if random.IntN(20) == 0 { // restart
					u, warned = table(t, dir, clock)
					opened = len(past)
				}
			default:
				l := Limits{random.IntN(3) * 3000, random.IntN(3) * 2, random.IntN(3)}
				var tokens int64
				var runs, byOrigin int
				for i, e := range past {
					same := i >= opened && e.at.Unix()/60 == now.Unix()/60 && e.run
					if e.payer.Agent == p.Agent && DayOf(e.at) == DayOf(now) {
						tokens += e.tokens
					}
					if same && e.payer.Agent == p.Agent {
						runs++
					}
					if same && e.payer.Origin == p.Origin {
						byOrigin++
					}
				}
				want := !(l.Tokens > 0 && tokens >= int64(l.Tokens) || l.Runs > 0 && runs >= l.Runs || l.OriginRuns > 0 && byOrigin >= l.OriginRuns)
				begins := random.IntN(4) > 0
				err := u.Admit(p, l, begins)
				if (err == nil) != want {
					t.Fatalf("seed %d at %v: %v for %+v, %v; the model counts %d tokens, %d and %d runs", seed, now, err, l, p, tokens, runs, byOrigin)
				}
				if e := Refused(err); e != nil {
					if refused++; !e.Until.After(now) || e.Until.Sub(now) > 25*time.Hour {
						t.Fatalf("at %v it waits until %v", now, e.Until)
					}
				} else if begins {
					past = append(past, reference{now, p, 0, true})
				}
			}
		}
		if len(*warned) > 0 || refused < 100 {
			t.Errorf("seed %d: %d refusals, warnings %v", seed, refused, *warned)
		}
	}
}

// TestRestart: a restart keeps the counts of the day and loses those of old days.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		u, _ := table(t, dir, time.Now)
		u.Add(ann, "m", 1000, 1)
		u, _ = table(t, dir, time.Now)
		if err := u.Admit(ann, Limits{Tokens: 1001}, true); Refused(err) == nil {
			t.Errorf("after a restart: %v", err)
		}
		for range Keep + 5 {
			time.Sleep(24 * time.Hour)
			u.Add(ann, "m", 1, 1)
		}
		u, warned := table(t, dir, time.Now)
		if n := len(u.Records()); n != Keep || len(*warned) > 0 {
			t.Errorf("%d days, warnings %v", n, *warned)
		}
	})
}

// TestBounds: hostile figures and identities bound the file.
func TestBounds(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	u, _ := table(t, dir, func() time.Time { return now })
	u.Add(ann, "m", -5, 1<<60)
	if r := u.Records()[0]; r.Prompt != 0 || r.Completion != maxCall {
		t.Errorf("%+v", r)
	}
	for i := range 300 {
		ctx := With(context.Background(), "crab", fmt.Sprintf("tg:%d/%s", i, strings.Repeat("é", 500)))
		u.Add(PayerOf(ctx), "m", 1, 1)
	}
	fi, err := os.Stat(filepath.Join(dir, "usage.json"))
	if err != nil || fi.Size() > 1<<16 || len(u.Records()) != maxRows+1 {
		t.Errorf("%v, %v, %d records", fi.Size(), err, len(u.Records()))
	}
	if err := u.Admit(ann, Limits{Tokens: maxCall + 601}, false); err != nil {
		t.Error(err)
	}
	if err := u.Admit(ann, Limits{Tokens: maxCall + 600}, false); err == nil {
		t.Error("the tokens of others do not count")
	}
	for i := range maxNoticed + 10 {
		u.begun[fmt.Sprintf("sender %q", fmt.Sprint("tg:", i))]++
		e := Refused(u.Admit(Payer{"crab", fmt.Sprint("tg:", i)}, Limits{OriginRuns: 1}, true))
		if e == nil || !e.First || len(u.noticed) > maxNoticed {
			t.Fatalf("refusal %d: %+v", i, e)
		}
	}
}

// TestOrigin: the root of a chain of runs pays.
func TestOrigin(t *testing.T) {
	ctx := With(With(context.Background(), "crab", "cron"), "reviewer", "delegate-crab")
	if p := PayerOf(ctx); p != (Payer{"reviewer", "cron"}) {
		t.Errorf("%+v pays", p)
	}
}

// TestGarbage: a damaged file is renamed, with a warning, and counting begins again. Each
// prefix of a file is one that a power cut may leave.
func TestGarbage(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "usage.json")
	u, _ := table(t, dir, time.Now)
	u.Add(ann, "m", 1, 2)
	u.Add(Payer{"b", "user"}, "m", 3, 4)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad := [][]byte{[]byte("\x00\x00\x00"), []byte(`{"day":1}`), []byte(`[{"day":"x","prompt":"y"}]`), []byte(`[{"day":"2026-01-01","agent":"a","prompt":-1}]`),
		[]byte(`[{"agent":"a","runs":9000000000000000000}]`), bytes.Repeat([]byte("[1,"), maxFile/3+1)}
	for n := range len(good) - 1 { // the last byte ends the line
		bad = append(bad, good[:n])
	}
	for i, text := range bad {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(vfs.OS{}, path); err == nil || !strings.Contains(err.Error(), path) {
			t.Fatalf("file %d: %v", i, err)
		}
		u, warned := table(t, dir, time.Now)
		kept, err := os.ReadFile(path + ".damaged")
		if len(*warned) != 1 || len(u.Records()) != 0 || err != nil || !bytes.Equal(kept, text) {
			t.Fatalf("file %d: warnings %v, records %v, %v", i, *warned, u.Records(), err)
		}
		u.Add(ann, "m", 1, 2)
		if list, err := Read(vfs.OS{}, path); err != nil || len(list) != 1 {
			t.Fatalf("file %d: then %v, %v", i, list, err)
		}
	}
}

// TestNotWritten: without its file, the table counts, and warns once.
func TestNotWritten(t *testing.T) {
	u, warned := table(t, filepath.Join(t.TempDir(), "absent"), time.Now)
	for range 3 {
		u.Add(ann, "m", 50, 0)
	}
	if err := u.Admit(ann, Limits{Tokens: 150}, true); Refused(err) == nil || len(*warned) != 1 {
		t.Errorf("%v, warnings %v", err, *warned)
	}
}

// TestTomorrow: the next day begins after now, also where it has no midnight.
func TestTomorrow(t *testing.T) {
	local := time.Local
	defer func() { time.Local = local }()
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/Santiago", "Asia/Beirut", "America/Sao_Paulo"} {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		time.Local = loc
		for now := time.Date(2017, 1, 1, 0, 30, 0, 0, loc); now.Year() < 2019; now = now.Add(37 * time.Minute) {
			next := tomorrow(now)
			if !next.After(now) || DayOf(next) == DayOf(now) || next.Sub(now) > 25*time.Hour {
				t.Fatalf("%s: after %v comes %v", zone, now, next)
			}
		}
	}
}
