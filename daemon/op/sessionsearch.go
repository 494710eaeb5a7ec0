package op

import (
	"context"
	"time"

	"crabmem/daemon/errtable"
	"crabmem/sessionlog/search"
)

// SessionQuery is a search in the messages of sessions.
type SessionQuery struct {
	Query     string   `json:"query"`
	Limit     int      `json:"limit,omitempty" jsonschema:"hits, at most 20; absent: 5"`
	Agent     string   `json:"agent,omitempty"`
	CreatedBy string   `json:"created_by,omitempty" jsonschema:"only sessions that this identity created" op:"owner"`
	Roles     []string `json:"roles,omitempty" jsonschema:"only messages of these roles"`
	Since     string   `json:"since,omitempty" jsonschema:"RFC 3339: only sessions that were written at or after this time"`
	Until     string   `json:"until,omitempty" jsonschema:"RFC 3339: only sessions that were created before this time"`
	Window    *int     `json:"window,omitempty" jsonschema:"messages around a hit, at most 16; absent: 5"`
	Tools     bool     `json:"tools,omitempty" jsonschema:"search the arguments and results of tools, too"`
	Semantic  bool     `json:"semantic,omitempty" jsonschema:"search by meaning, too"`
}

// SessionsFound is the result of a search.
type SessionsFound struct {
	search.Result
}

var SearchSessions = Add(errtable.Session, Op[Daemon, SessionQuery, SessionsFound]{
	Name: "sessions.search", Does: "Search the messages of the sessions that the caller may read.", Effect: Reads, Need: NeedOwn, Files: true,
	Path: "POST /v1/sessions/search",
	Permit: func(d Daemon, in *SessionQuery) error {
		if in.Tools {
			return d.As.Refused("search results of tools")
		}
		return nil
	},
	Run: func(ctx context.Context, d Daemon, in *SessionQuery) (SessionsFound, error) {
		q, err := in.search()
		if err != nil {
			return SessionsFound{}, err
		}
		if !d.As.Owner {
			q.Created = d.As.MayRead
		}
		r, err := d.SearchSessions(ctx, q, in.Tools, in.Semantic)
		if err != nil {
			return SessionsFound{}, err
		}
		return SessionsFound{*r}, nil
	},
})

// search returns the query for the index.
func (in *SessionQuery) search() (q search.Query, err error) {
	q = search.Query{Text: in.Query, Limit: in.Limit, Agent: in.Agent, Sender: in.CreatedBy, Roles: in.Roles}
	switch {
	case in.Query == "":
		return q, errtable.Invalidf("query is empty")
	case in.Limit < 0 || in.Limit > search.MaxHits:
		return q, errtable.Invalidf("limit: want 1 to %d", search.MaxHits)
	case in.Window != nil && (*in.Window < 0 || *in.Window > search.MaxWindow):
		return q, errtable.Invalidf("window: want 0 to %d", search.MaxWindow)
	case in.Window != nil && *in.Window == 0:
		q.Window = -1 // no window; 0 is the default
	case in.Window != nil:
		q.Window = *in.Window
	}
	parse := func(name, text string) (at time.Time) {
		if text == "" || err != nil {
			return at
		}
		if at, err = time.Parse(time.RFC3339, text); err != nil {
			err = errtable.Invalidf("%s: want RFC 3339, such as 2026-04-14T10:00:00Z", name)
		}
		return at
	}
	q.Since, q.Until = parse("since", in.Since), parse("until", in.Until)
	return q, err
}
