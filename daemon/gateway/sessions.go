package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"

	"crabmem/daemon/client"
	"crabmem/daemon/op"
)

type lineList struct {
	Session op.Session `json:"session"`
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

type newTitle struct {
	Title string `json:"title"`
}

type compaction struct {
	Focus  string `json:"focus,omitempty" jsonschema:"topics that the summary should cover"`
	Tokens int    `json:"tokens,omitempty" jsonschema:"limit of the summary"`
}

var sessionRoutes = []route{
	{method: "GET", path: "/v1/sessions", summary: "List sessions", out: of[op.SessionList](), status: 200,
		query: []param{limitParam, {name: "after", summary: "next of the page before", kind: "integer", most: 1 << 30},
			{name: "agent", summary: "only sessions of this agent", kind: "string"}, {name: "trash", summary: "true: the deleted sessions", kind: "boolean"}},
		run: (*call).listSessions},
	{method: "GET", path: "/v1/sessions/{id}", summary: "Describe a session", out: of[op.Session](), status: 200, run: (*call).readSession},
	{method: "GET", path: "/v1/sessions/{id}/history", summary: "Read the lines of a session", out: of[lineList](), status: 200,
		query: []param{limitParam, {name: "after", summary: "only lines with a higher number", kind: "integer", most: 1 << 30},
			{name: "from_marker", summary: "true: begin at the last summary", kind: "boolean"}},
		run: (*call).sessionHistory},
	{method: "POST", path: "/v1/sessions/search", summary: "Search the messages of sessions", in: of[op.SessionQuery](), out: of[op.SessionsFound](), status: 200,
		fails: []int{403}, run: with((*call).searchSessions)},
	{method: "PATCH", path: "/v1/sessions/{id}", summary: "Title a session", in: of[newTitle](), out: of[op.Session](), status: 200, fails: []int{403},
		run: with((*call).titleSession)},
	{method: "DELETE", path: "/v1/sessions/{id}", summary: "Move a session into the trash", out: of[op.Session](), status: 200, fails: []int{403, 409}, run: (*call).deleteSession},
	{method: "POST", path: "/v1/sessions/{id}/restore", summary: "Move a session out of the trash", out: of[op.Session](), status: 200, fails: []int{403},
		run: (*call).restoreSession},
	{method: "POST", path: "/v1/sessions/{id}/compact", summary: "Replace the history of a session by a summary", in: of[compaction](), out: of[op.Compacted](), status: 200,
		fails: []int{403}, run: with((*call).compactSession)},
	{method: "POST", path: "/v1/sessions/{id}/cancel", summary: "End the run of a session", status: 204, run: (*call).cancelSession},
}

func (c *call) listSessions() (any, error) {
	return op.ListSessions.Do(c.r.Context(), c.daemon, op.SessionFilter{
		Agent: c.text("agent"), Trash: c.flag("trash"), Offset: int(c.number("after", 0)), Limit: int(max(c.number("limit", defaultPage), 1)),
	})
}

// session returns the session with the ID in the path.
func (c *call) session() (*op.Session, error) { return c.sessionOf(c.r.PathValue("id")) }

func (c *call) sessionOf(id string) (*op.Session, error) {
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
	return s, nil
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
			list.Session, list.Last = *h.Session, h.LastLine
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

func (c *call) searchSessions(in *op.SessionQuery) (any, error) {
	return op.SearchSessions.Do(c.r.Context(), c.daemon, *in)
}

func (c *call) titleSession(in *newTitle) (any, error) {
	return op.TitleSession.Do(c.r.Context(), c.daemon, op.SessionTitle{Session: c.r.PathValue("id"), Title: in.Title})
}

func (c *call) deleteSession() (any, error) {
	return op.DeleteSession.Do(c.r.Context(), c.daemon, op.SessionID{Session: c.r.PathValue("id")})
}

func (c *call) restoreSession() (any, error) {
	return op.RestoreSession.Do(c.r.Context(), c.daemon, op.SessionID{Session: c.r.PathValue("id")})
}

func (c *call) compactSession(in *compaction) (any, error) {
	return op.CompactSession.Do(c.r.Context(), c.daemon, op.Compaction{Session: c.r.PathValue("id"), Focus: in.Focus, Tokens: in.Tokens})
}

// cancelSession ends the run. A session that is not loaded has none.
func (c *call) cancelSession() (any, error) {
	s, err := c.session()
	if err != nil || s.Number == 0 {
		return nil, err
	}
	return nil, c.daemon.Cancel(c.r.Context(), s.Number)
}
