package op

import (
	"strings"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
	"crabmem/daemon/timetext"
)

// FilterArgs are the arguments of the tools that search entries: those of agents and
// of the MCP server.
type FilterArgs struct {
	Kind   string   `json:"kind,omitempty" jsonschema:"only notes, or only archives of conversations"`
	Type   string   `json:"type,omitempty" jsonschema:"only entries of this type, such as decision"`
	Tags   []string `json:"tags,omitempty" jsonschema:"only entries with all of these tags"`
	After  string   `json:"after,omitempty" jsonschema:"only entries created at or after this time: a day, month, year, time, or an age such as 30d"`
	Before string   `json:"before,omitempty" jsonschema:"only entries created before this time"`
}

// Apply sets the kinds and the filter of a query.
func (a *FilterArgs) Apply(q *crmem.Query, now time.Time) (err error) {
	if a.Kind != "" {
		q.Kinds = make([]crmem.Kind, 1)
		if err := q.Kinds[0].UnmarshalText([]byte(a.Kind)); err != nil {
			return errtable.Invalidf("%v", err)
		}
	}
	q.Filter.Type = strings.TrimSpace(a.Type)
	for _, tag := range a.Tags {
		if tag = strings.TrimPrefix(strings.TrimSpace(tag), "#"); tag != "" {
			q.Filter.Tags = append(q.Filter.Tags, tag)
		}
	}
	if q.Filter.After, err = boundary(a.After, now); err != nil {
		return errtable.Invalidf("after %v", err)
	}
	if q.Filter.Before, err = boundary(a.Before, now); err != nil {
		return errtable.Invalidf("before %v", err)
	}
	return nil
}

// boundary returns a time in unix seconds, or 0 for an empty text or a time before 1970.
func boundary(s string, now time.Time) (uint64, error) {
	t, err := timetext.Parse(s, false, now)
	if err != nil || s == "" {
		return 0, err
	}
	return uint64(max(t.Unix(), 0)), nil
}
