package op

import (
	"cmp"
	"context"
	"slices"
	"sort"

	"crabmem/daemon/errtable"
	"crabmem/daemon/usage"
)

// UsageFilter selects and groups the usage.
type UsageFilter struct {
	By   string `json:"by,omitempty" jsonschema:"a sum for each day (default), agent, model, or origin: the sender whose message began a chain of runs" op:"words=day|agent|origin|model"`
	Days int    `json:"days,omitempty" jsonschema:"local days, with today" op:"default=7,min=1,max=31"`
}

// UsageGroups are the values of UsageFilter.By.
var UsageGroups = []string{"day", "agent", "origin", "model"}

// UsageSum is the usage of a day, an agent, an origin, or a model, which has no runs.
type UsageSum struct {
	Name string `json:"name"`
	usage.Count
	Tokens int64 `json:"tokens" jsonschema:"prompt and completion"`
}

// count adds a count.
func (s *UsageSum) count(c usage.Count) {
	s.Add(c)
	s.Tokens = s.Prompt + s.Completion
}

// unknownName is the name of models that older versions did not record.
const unknownName = "(unknown)"

// Usage is what runs used.
type Usage struct {
	Since string     `json:"since" jsonschema:"the first day"`
	Sums  []UsageSum `json:"sums" jsonschema:"days: the newest first; else the most tokens first"`
	Total UsageSum   `json:"total"`
}

var ReadUsage = Add(errtable.Other, Op[Daemon, UsageFilter, Usage]{
	Name: "usage.read", Does: "Count the runs and tokens of the last days.", Effect: Reads, Path: "GET /v1/usage",
	Run: func(_ context.Context, d Daemon, in *UsageFilter) (out Usage, err error) {
		by, days := cmp.Or(in.By, "day"), cmp.Or(in.Days, 7)
		if !slices.Contains(UsageGroups, by) || days < 1 || days > usage.Keep {
			e := errtable.Invalidf("by %s, days %d: want day, agent, origin, or model, and 1 to %d days", ShownValue(by), days, usage.Keep)
			e.Exit = errtable.ExitUsage
			return out, e
		}
		list, err := d.Usage()
		out = Usage{Since: usage.DayOf(d.Now().AddDate(0, 0, 1-days)), Sums: []UsageSum{}, Total: UsageSum{Name: "total"}}
		at := make(map[string]int)
		for _, r := range list {
			if r.Day < out.Since {
				continue
			}
			name := map[string]string{"day": r.Day, "agent": r.Agent, "origin": r.Origin, "model": cmp.Or(r.Model, unknownName)}[by]
			out.Total.count(r.Count)
			if by == "model" {
				if r.Runs = 0; r.Count == (usage.Count{}) {
					continue
				}
			}
			if _, ok := at[name]; !ok {
				at[name] = len(out.Sums)
				out.Sums = append(out.Sums, UsageSum{Name: name})
			}
			out.Sums[at[name]].count(r.Count)
		}
		sort.Slice(out.Sums, func(i, j int) bool {
			a, b := &out.Sums[i], &out.Sums[j]
			if by == "day" || a.Tokens == b.Tokens {
				return (a.Name < b.Name) != (by == "day")
			}
			return a.Tokens > b.Tokens
		})
		return out, err
	},
})
