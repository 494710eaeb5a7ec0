// Package usage counts the runs and tokens of each agent and origin by day, and refuses
// runs beyond limits. The origin is the identity at the root of a chain of runs, such as
// user, cron, or tg:7.
package usage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"sync"
	"time"

	"crabmem/bm25/clip"
	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
)

// Keep is the number of days that a [Table] contains.
const Keep = 31

const (
	maxFile    = 8 << 20 // bytes
	maxRows    = 100     // of a day; further origins count as others
	maxName    = 128     // bytes of an agent, origin, or model
	maxCall    = 1 << 24 // tokens of a call
	maxCount   = 1 << 50 // of a record in the file
	maxNoticed = 1000    // limits whose last refusal is known
	others     = "(others)"
)

// Payer is for whom a model is called.
type Payer struct {
	Agent  string `json:"agent"`
	Origin string `json:"origin"`
}

type payerKey struct{}

// With returns a context for calls of models of an agent. origin applies unless ctx has
// one: a delegated task has the origin of the run that delegated it.
func With(ctx context.Context, agent, origin string) context.Context {
	if p := PayerOf(ctx); p.Agent != "" {
		origin = p.Origin
	}
	return context.WithValue(ctx, payerKey{}, Payer{clip.Bytes(agent, maxName), clip.Bytes(origin, maxName)})
}

// PayerOf returns the payer that With put into a context, or an empty one.
func PayerOf(ctx context.Context) Payer {
	p, _ := ctx.Value(payerKey{}).(Payer)
	return p
}

// Count is what runs used.
type Count struct {
	Runs       int64 `json:"runs"`
	Prompt     int64 `json:"prompt" jsonschema:"tokens that models read"`
	Completion int64 `json:"completion" jsonschema:"tokens that models wrote"`
}

// Add adds another count.
func (c *Count) Add(more Count) {
	c.Runs, c.Prompt, c.Completion = c.Runs+more.Runs, c.Prompt+more.Prompt, c.Completion+more.Completion
}

// Record is what a payer used on a day: the runs, or the tokens of a model.
type Record struct {
	Day string `json:"day"` // YYYY-MM-DD, local
	Payer
	Model string `json:"model,omitempty"` // empty: runs, and tokens of older versions
	Count
}

// DayOf returns a time's local day.
func DayOf(now time.Time) string { return now.Local().Format(time.DateOnly) }

// Table has the records of the last days. It is safe for concurrent use. Its file is
// derived: without it, counting begins again.
type Table struct {
	fs   vfs.FS
	path string
	now  func() time.Time
	warn func(what string, err error)

	mu      sync.Mutex
	records []Record // by the time of their first runs
	failed  bool     // the last write of the file
	minute  int64    // of begun
	begun   map[string]int
	noticed map[string]string // the day of the last refusal, by limit
}

// Open returns the table in a file. It renames a damaged file to NAME.damaged.
func Open(fsys vfs.FS, path string, now func() time.Time, warn func(what string, err error)) *Table {
	t := &Table{fs: fsys, path: path, now: now, warn: warn, begun: make(map[string]int), noticed: make(map[string]string)}
	var err error
	if t.records, err = Read(fsys, path); err != nil {
		warn("count the usage from zero, and rename its file to usage.json.damaged", errors.Join(err, fsys.Rename(path, path+".damaged")))
	}
	return t
}

// Read returns the records in a file, which may be missing.
func Read(fsys vfs.FS, path string) (list []Record, err error) {
	b, err := vfs.ReadFile(fsys, path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	for _, r := range list {
		if min(r.Runs, r.Prompt, r.Completion) < 0 || max(r.Runs, r.Prompt, r.Completion) > maxCount {
			err = errors.New("impossible values")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read usage from %s: %w", path, err)
	}
	return list, nil
}

// Records returns the records of the last days.
func (t *Table) Records() []Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Record(nil), t.records...)
}

// Add counts the tokens of a model call.
func (t *Table) Add(p Payer, model string, prompt, completion int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(p, clip.Bytes(model, maxName), Count{Prompt: int64(max(0, min(prompt, maxCall))), Completion: int64(max(0, min(completion, maxCall)))})
}

// count adds to the record of a payer and a model, and stores the records. The caller
// holds mu.
func (t *Table) count(p Payer, model string, c Count) {
	now := t.now()
	day, rows, at := DayOf(now), 0, -1
	for i := range t.records {
		if r := &t.records[i]; r.Day == day {
			if rows++; r.Payer == p && r.Model == model {
				at = i
			}
		}
	}
	switch {
	case at >= 0:
	case rows >= maxRows && p.Origin != others:
		if model != "" {
			model = others
		}
		t.count(Payer{p.Agent, others}, model, c)
		return
	default:
		first, last := DayOf(now.AddDate(0, 0, 1-Keep)), DayOf(now.AddDate(0, 0, 1))
		kept := t.records[:0]
		for _, r := range t.records {
			if r.Day >= first && r.Day <= last {
				kept = append(kept, r)
			}
		}
		at, t.records = len(kept), append(kept, Record{Day: day, Payer: p, Model: model})
	}
	t.records[at].Add(c)
	write := func(w io.Writer) error { return json.NewEncoder(w).Encode(t.records) }
	_, err := vfs.WriteDerived(t.fs, t.path, int64(len(t.records))<<10, write, func() (bool, error) { return true, nil })
	if err != nil && !t.failed {
		t.warn("store the usage: the limits count it until the daemon stops", err)
	}
	t.failed = err != nil
}

// Limits are the limits of a run. 0 is no limit.
type Limits struct {
	Tokens     int // of the agent in a day
	Runs       int // of the agent in a minute
	OriginRuns int // of the origin in a minute
}

// Limit is the cause of the error for a run beyond a limit.
type Limit struct {
	Until time.Time `json:"until"` // when runs may begin again
	First bool      `json:"-"`     // the limit refused no other run on this day
}

func (*Limit) Error() string { return "limit reached" }

// Refused returns the Limit in err, or nil.
func Refused(err error) *Limit {
	e, _ := errors.AsType[*Limit](err)
	return e
}

// Admit returns an error for a run beyond a limit. Otherwise it counts the run if begins is
// set. Active runs continue beyond the limit of tokens. Minutes are those of the clock.
func (t *Table) Admit(p Payer, l Limits, begins bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now().Local()
	if minute := now.Unix() / 60; minute != t.minute {
		t.minute = minute
		clear(t.begun)
	}
	tokens, day := int64(0), DayOf(now)
	for i := range t.records {
		if r := &t.records[i]; r.Day == day && r.Agent == p.Agent {
			tokens += r.Prompt + r.Completion
		}
	}
	agent, origin := fmt.Sprintf("agent %q", p.Agent), fmt.Sprintf("sender %q", p.Origin)
	next := time.Unix(60*(t.minute+1), 0)
	switch {
	case l.Tokens > 0 && tokens >= int64(l.Tokens):
		return t.refuse(tomorrow(now), l.Tokens, "tokens a day of "+agent, "tokens_per_day of the agent or of [limits]")
	case l.Runs > 0 && t.begun[agent] >= l.Runs:
		return t.refuse(next, l.Runs, "runs a minute of "+agent, "runs_per_minute of the agent or of [limits]")
	case l.OriginRuns > 0 && t.begun[origin] >= l.OriginRuns:
		return t.refuse(next, l.OriginRuns, "runs a minute of "+origin, "untrusted_runs_per_minute or trusted_runs_per_minute of [limits]")
	case begins:
		t.begun[agent]++
		t.begun[origin]++
		t.count(p, "", Count{Runs: 1})
	}
	return nil
}

// refuse returns the error of a limit. The caller holds mu.
func (t *Table) refuse(until time.Time, n int, what, key string) error {
	day := DayOf(t.now())
	first := t.noticed[what] != day
	if len(t.noticed) >= maxNoticed {
		clear(t.noticed)
	}
	t.noticed[what] = day
	return &errtable.Error{Kind: "limit", HTTP: http.StatusTooManyRequests, Err: &Limit{until, first}, Fix: "wait until then, or raise " + key + " in config.toml",
		Message: fmt.Sprintf("begin run: limit of %d %s reached until %s", n, what, until.Format("2006-01-02 15:04:05 MST"))}
}

// tomorrow returns when the next local day begins. Clocks that are set at midnight may
// skip the first hour of a day.
func tomorrow(now time.Time) time.Time {
	y, m, d := now.Date()
	next := time.Date(y, m, d+1, 0, 0, 0, 0, now.Location())
	for DayOf(next) == DayOf(now) {
		next = next.Add(time.Hour)
	}
	return next
}
