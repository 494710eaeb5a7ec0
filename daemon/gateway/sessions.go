package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"crabmem/crmem/fusion"
	"crabmem/daemon/client"
	"crabmem/sessionlog/search"
)

// Session is a conversation in its file.
type Session struct {
	ID        string `json:"id"`
	Agent     string `json:"agent"`
	CreatedBy string `json:"created_by" jsonschema:"the identity that created it"`
	CreatedAt string `json:"created_at" jsonschema:"RFC 3339"`
	Modified  string `json:"modified_at,omitempty" jsonschema:"RFC 3339"`
	Title     string `json:"title"`
	Messages  int    `json:"messages"`
	Bytes     int64  `json:"bytes"`
	Loaded    bool   `json:"loaded" jsonschema:"the daemon has it loaded"`
	Active    bool   `json:"active" jsonschema:"a run is active"`
	Damaged   int    `json:"damaged,omitempty" jsonschema:"bad lines"`
}

func sessionOf(s *client.Session) Session {
	out := Session{ID: s.ID, Agent: s.Meta.Agent, CreatedBy: s.Meta.CreatedBy, CreatedAt: s.Meta.CreatedAt, Title: s.Meta.Title, Messages: s.Messages,
		Bytes: s.Size, Loaded: s.Number != 0, Active: s.Active, Damaged: s.Damaged}
	if !s.Modified.IsZero() {
		out.Modified = s.Modified.UTC().Format(time.RFC3339)
	}
	return out
}

type sessionList struct {
	Items []Session `json:"items" jsonschema:"the newest first"`
	Next  string    `json:"next,omitempty" jsonschema:"value of after for the next page; absent on the last page"`
	Total int       `json:"total"`
}

type lineList struct {
	Session Session    `json:"session"`
	Items   []fileLine `json:"items"`
	Next    string     `json:"next,omitempty" jsonschema:"value of after for the next page; absent on the last page"`
	Last    int64      `json:"last_line" jsonschema:"number of lines in the file"`
}

// fileLine is a line of a session's file.
type fileLine struct {
	Line   int64  `json:"line"`
	Kind   string `json:"kind" jsonschema:"meta, message, marker, meta record, blank, bad, or unknown"`
	Record any    `json:"record,omitempty" jsonschema:"the JSON object in the line"`
	Error  string `json:"error,omitempty" jsonschema:"why the line is bad"`
}

type sessionQuestion struct {
	Query    string   `json:"query"`
	Limit    int      `json:"limit,omitempty" jsonschema:"hits, at most 20; absent: 5"`
	Agent    string   `json:"agent,omitempty"`
	Roles    []string `json:"roles,omitempty" jsonschema:"only messages of these roles"`
	Since    string   `json:"since,omitempty" jsonschema:"RFC 3339: only sessions that were written at or after this time"`
	Until    string   `json:"until,omitempty" jsonschema:"RFC 3339: only sessions that were created before this time"`
	Window   *int     `json:"window,omitempty" jsonschema:"messages around a hit, at most 16; absent: 5"`
	Tools    bool     `json:"tools,omitempty" jsonschema:"search the arguments and results of tools, too"`
	Semantic bool     `json:"semantic,omitempty" jsonschema:"search by meaning, too"`
}

type sessionAnswer struct {
	Hits     []sessionHit    `json:"hits" jsonschema:"the best first"`
	Total    int             `json:"total" jsonschema:"matches before the limit"`
	Searched int             `json:"searched"`
	Meaning  *fusion.Meaning `json:"meaning,omitempty" jsonschema:"whether the search was by meaning, or why not"`
}

type sessionHit struct {
	Session string       `json:"session"`
	Agent   string       `json:"agent"`
	Title   string       `json:"title"`
	Role    string       `json:"role"`
	Line    int64        `json:"line"`
	Score   float64      `json:"score"`
	Snippet string       `json:"snippet"`
	Window  []windowLine `json:"window"`
}

type windowLine struct {
	Line int64  `json:"line"`
	Role string `json:"role"`
	Text string `json:"text"`
}

type newTitle struct {
	Title string `json:"title"`
}

type compaction struct {
	Focus  string `json:"focus,omitempty" jsonschema:"topics that the summary should cover"`
	Tokens int    `json:"tokens,omitempty" jsonschema:"limit of the summary"`
}

type compacted struct {
	Summary      string `json:"summary"`
	Archive      string `json:"archive,omitempty" jsonschema:"the entry that contains the summary"`
	TokensBefore uint64 `json:"tokens_before"`
	TokensAfter  uint64 `json:"tokens_after"`
}

var sessionRoutes = []route{
	{method: "GET", path: "/v1/sessions", summary: "List sessions", out: of[sessionList](), status: 200,
		query: []param{limitParam, {name: "after", summary: "next of the page before", kind: "integer", most: 1 << 30},
			{name: "agent", summary: "only sessions of this agent", kind: "string"}, {name: "trash", summary: "true: the deleted sessions", kind: "boolean"}},
		run: (*call).listSessions},
	{method: "GET", path: "/v1/sessions/{id}", summary: "Describe a session", out: of[Session](), status: 200, run: (*call).readSession},
	{method: "GET", path: "/v1/sessions/{id}/history", summary: "Read the lines of a session", out: of[lineList](), status: 200,
		query: []param{limitParam, {name: "after", summary: "only lines with a higher number", kind: "integer", most: 1 << 30},
			{name: "from_marker", summary: "true: begin at the last summary", kind: "boolean"}},
		run: (*call).sessionHistory},
	{method: "POST", path: "/v1/sessions/search", summary: "Search the messages of sessions", in: of[sessionQuestion](), out: of[sessionAnswer](), status: 200,
		fails: []int{403}, run: with((*call).searchSessions)},
	{method: "PATCH", path: "/v1/sessions/{id}", summary: "Title a session", in: of[newTitle](), out: of[Session](), status: 200, fails: []int{403},
		run: with((*call).titleSession)},
	{method: "DELETE", path: "/v1/sessions/{id}", summary: "Move a session into the trash", out: of[Session](), status: 200, fails: []int{403, 409}, run: (*call).deleteSession},
	{method: "POST", path: "/v1/sessions/{id}/restore", summary: "Move a session out of the trash", out: of[Session](), status: 200, fails: []int{403},
		run: (*call).restoreSession},
	{method: "POST", path: "/v1/sessions/{id}/compact", summary: "Replace the history of a session by a summary", in: of[compaction](), out: of[compacted](), status: 200,
		fails: []int{403}, run: with((*call).compactSession)},
	{method: "POST", path: "/v1/sessions/{id}/cancel", summary: "End the run of a session", status: 204, run: (*call).cancelSession},
}

func (c *call) listSessions() (any, error) {
	after, limit := int(c.number("after", 0)), int(max(c.number("limit", defaultPage), 1))
	list := sessionList{Items: []Session{}}
	f := client.SessionFilter{Agent: c.text("agent"), Trash: c.flag("trash"), Offset: after, Limit: limit}
	sessions, total, err := c.daemon.ListSessions(c.r.Context(), f)
	if err != nil {
		return nil, err
	}
	for i := range sessions {
		list.Items = append(list.Items, sessionOf(&sessions[i]))
	}
	if list.Total = total; after+limit < total {
		list.Next = strconv.Itoa(after + limit)
	}
	return list, nil
}

// session returns the session with the ID in the path.
func (c *call) session() (*client.Session, error) { return c.sessionOf(c.r.PathValue("id")) }

func (c *call) sessionOf(id string) (*client.Session, error) {
	for h, err := range c.daemon.History(c.r.Context(), id, client.HistoryOptions{Limit: 1}) {
		if err != nil {
			return nil, err
		}
		if h.Session != nil {
			return h.Session, nil
		}
	}
	return nil, problemf(http.StatusNotFound, "not_found", "no session %s", printable(id))
}

func (c *call) readSession() (any, error) {
	s, err := c.session()
	if err != nil {
		return nil, err
	}
	return sessionOf(s), nil
}

func (c *call) sessionHistory() (any, error) {
	limit := int(max(c.number("limit", defaultPage), 1))
	list := lineList{Items: []fileLine{}}
	o := client.HistoryOptions{After: int64(c.number("after", 0)), FromMarker: c.flag("from_marker"), Limit: limit + 1}
	size := 0
	for h, err := range c.daemon.History(c.r.Context(), c.r.PathValue("id"), o) {
		if err != nil {
			return nil, err
		}
		if h.Session != nil {
			list.Session, list.Last = sessionOf(h.Session), h.LastLine
		}
		for i := range h.Lines {
			l := &h.Lines[i]
			size += len(l.Raw)
			if n := len(list.Items); n > 0 && (n >= limit || size > maxPage) && l.Number > list.Items[n-1].Line {
				list.Next = strconv.FormatInt(list.Items[n-1].Line, 10)
				return list, nil
			}
			out := fileLine{Line: l.Number, Kind: l.Kind.String()}
			if l.Err != nil {
				out.Error = l.Err.Msg
			}
			if json.Valid(l.Raw) {
				out.Record = json.RawMessage(l.Raw)
			}
			list.Items = append(list.Items, out)
		}
	}
	return list, nil
}

// maxPage is the number of bytes of lines, or of contents, after which a page ends.
const maxPage = 8 << 20

func (c *call) searchSessions(in *sessionQuestion) (any, error) {
	q := search.Query{Text: in.Query, Limit: in.Limit, Agent: in.Agent, Roles: in.Roles}
	switch {
	case in.Query == "":
		return nil, invalidf("query is empty")
	case in.Limit < 0 || in.Limit > search.MaxHits:
		return nil, invalidf("limit: want 1 to %d", search.MaxHits)
	case in.Window != nil && (*in.Window < 0 || *in.Window > search.MaxWindow):
		return nil, invalidf("window: want 0 to %d", search.MaxWindow)
	case in.Window != nil && *in.Window == 0:
		q.Window = -1
	case in.Window != nil:
		q.Window = *in.Window
	}
	for name, t := range map[string]struct {
		text string
		to   *time.Time
	}{"since": {in.Since, &q.Since}, "until": {in.Until, &q.Until}} {
		if t.text == "" {
			continue
		}
		var err error
		if *t.to, err = time.Parse(time.RFC3339, t.text); err != nil {
			return nil, invalidf("%s: want RFC 3339, such as 2026-04-14T10:00:00Z", name)
		}
	}
	if in.Semantic {
		q.Semantic = &fusion.Request{}
	}
	found, _, err := c.daemon.SearchSessions(c.r.Context(), q, in.Tools)
	if err != nil {
		return nil, err
	}
	out := sessionAnswer{Hits: []sessionHit{}, Total: found.Total, Searched: found.Searched, Meaning: found.Meaning}
	for i := range found.Hits {
		h := &found.Hits[i]
		one := sessionHit{Session: h.ID, Agent: h.Agent, Title: h.Title, Role: h.Role, Line: h.Line, Score: h.Score, Snippet: h.Snippet, Window: []windowLine{}}
		for _, w := range h.Window {
			one.Window = append(one.Window, windowLine{w.Line, w.Role, w.Text})
		}
		out.Hits = append(out.Hits, one)
	}
	return out, nil
}

func (c *call) titleSession(in *newTitle) (any, error) {
	s, err := c.daemon.SetTitle(c.r.Context(), c.r.PathValue("id"), in.Title)
	return sessionOf(&s), err
}

func (c *call) deleteSession() (any, error) {
	s, err := c.daemon.DeleteSession(c.r.Context(), c.r.PathValue("id"), false)
	return sessionOf(&s), err
}

func (c *call) restoreSession() (any, error) {
	s, err := c.daemon.RestoreSession(c.r.Context(), c.r.PathValue("id"))
	return sessionOf(&s), err
}

func (c *call) compactSession(in *compaction) (any, error) {
	if in.Tokens < 0 || in.Tokens > 1<<20 {
		return nil, invalidf("tokens: want 0 to %d", 1<<20)
	}
	k, err := c.daemon.CompactSession(c.r.Context(), client.CompactOptions{StoredID: c.r.PathValue("id"), Focus: in.Focus, Tokens: in.Tokens})
	return compacted{k.Summary, k.Archive, k.TokensBefore, k.TokensAfter}, err
}

// cancelSession ends the run. A session that is not loaded has none.
func (c *call) cancelSession() (any, error) {
	s, err := c.session()
	if err != nil || s.Number == 0 {
		return nil, err
	}
	return nil, c.daemon.Cancel(c.r.Context(), s.Number)
}
