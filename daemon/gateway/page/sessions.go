package page

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"crabmem/bm25/clip"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/role"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
	"crabmem/sessionlog/search"
)

const (
	maxMessage = 64 << 10 // bytes of a message that the page shows
)

type sessionsView struct {
	Query    string
	Semantic bool
	Sessions []op.Session
	Older    string // the address of the next part; empty: none
	Found    *op.SessionsFound
	Note     string // why the search was not by meaning
}

func (v *visit) sessions() error {
	q := v.r.URL.Query()
	out := sessionsView{Query: q.Get("q"), Semantic: q.Get("meaning") != ""}
	var err error
	if strings.TrimSpace(out.Query) != "" {
		err = v.searchSessions(&out)
	} else {
		from, _ := strconv.Atoi(q.Get("from")) // 0: from the newest
		from = min(max(from, 0), 1<<20)
		var list op.SessionList
		list, err = op.ListSessions.Do(v.r.Context(), v.store(), op.SessionFilter{Offset: from, Limit: pageSize})
		if out.Sessions = list.Items; list.Next != "" {
			out.Older = "/ui/sessions?from=" + list.Next
		}
	}
	if err != nil {
		return err
	}
	return v.show("sessions.html", http.StatusOK, view{Title: "Sessions", Nav: "sessions", Data: out})
}

func (v *visit) searchSessions(out *sessionsView) error {
	if len(out.Query) > maxQuery {
		return &errtable.Error{HTTP: http.StatusBadRequest, Message: "the query is too long", Fix: "shorten the query"}
	}
	q := op.SessionQuery{Query: out.Query, Limit: search.MaxHits, Window: new(0), Semantic: out.Semantic}
	found, err := op.SearchSessions.Do(v.r.Context(), v.store(), q)
	if err != nil {
		return err
	}
	out.Found, out.Note = &found, found.Meaning.Note("text", "texts")
	return nil
}

type sessionView struct {
	op.Session
	Lines   []lineView
	Newer   string // the address of the next part; empty: none
	First   bool   // the part begins with the first line
	Run     runView
	Partial rendered // of the answer of an active run
	Request string   // for the next message
	Work    []role.View
}

// lineView is a line of a session.
type lineView struct {
	Number    int64
	Role      string // empty: a summary, or a bad line
	Body      rendered
	Reasoning string
	Calls     []callView
	Result    string // of a tool
	Summary   bool
	Note      string // what is not shown
}

type callView struct{ Name, Arguments string }

func (v *visit) session() error {
	id := v.r.PathValue("id")
	q := v.r.URL.Query()
	after, _ := strconv.ParseInt(q.Get("after"), 10, 64) // 0: from the beginning
	if q.Get("last") != "" {
		last, err := v.lastLine(id)
		if err != nil {
			return err
		}
		after = last - pageSize
	}
	out := sessionView{First: after <= 0, Run: viewOf(v.p.run(id)), Request: newRequest()}
	h, err := op.ReadLines.Do(v.r.Context(), v.store(), op.SessionPage{SessionID: op.SessionID{Session: id}, After: max(after, 0), Limit: pageSize})
	if err != nil {
		return err
	}
	if out.Session = h.Session; h.Next != "" {
		out.Newer = "/ui/sessions/" + url.PathEscape(id) + "?after=" + h.Next
	}
	for i := range h.Items {
		if line, shown := v.line(&h.Items[i]); shown {
			out.Lines = append(out.Lines, line)
		}
	}
	if out.Newer == "" {
		out.Work = v.work(id, out.Run.Active)
	}
	if out.Run.Active && out.Newer == "" {
		out.Partial = v.p.render(v.r.Context(), out.Run.Text)
		if out.Run.Question == nil { // or a load would delete the answer that the person writes
			load, _ := strconv.Atoi(q.Get("last")) // with the same query, a browser would only move to the end
			v.w.Header().Set("Refresh", refresh+"; url="+endOf(id, load+1))
		}
	}
	return v.show("session.html", http.StatusOK, view{Title: display.SessionLabel(out.ID, out.Title), Nav: "sessions", Data: out})
}

// lastLine returns the number of lines of a session.
func (v *visit) lastLine(id string) (int64, error) {
	h, err := op.ReadLines.Do(v.r.Context(), v.store(), op.SessionPage{SessionID: op.SessionID{Session: id}, Limit: 1})
	return h.Last, err
}

// line returns what the page shows of a line. Lines of metadata are not shown.
func (v *visit) line(l *op.SessionLine) (out lineView, shown bool) {
	out.Number = l.Line
	switch l.Kind {
	case record.KindMessage.String():
		var m sessionlog.Message
		if err := json.Unmarshal(l.Record, &m); err != nil {
			out.Note = "A message that cannot be shown."
			return out, true
		}
		out.Role, out.Reasoning = m.Role, clipped(m.ReasoningContent, &out.Note)
		for _, c := range m.ToolCalls {
			out.Calls = append(out.Calls, callView{c.Function.Name, clipped(c.Function.Arguments, &out.Note)})
		}
		if text := clipped(m.Content, &out.Note); m.Role == record.RoleTool {
			out.Result = text
		} else {
			out.Body = v.p.render(v.r.Context(), text)
		}
		return out, true
	case record.KindMarker.String():
		var m struct{ Compact string }
		_ = json.Unmarshal(l.Record, &m) // otherwise empty
		out.Summary, out.Body = true, v.p.render(v.r.Context(), clipped(m.Compact, &out.Note))
		return out, true
	case record.KindBad.String():
		out.Note = "A damaged line: run crabmem sessions check."
		return out, true
	}
	return out, false
}

// clipped returns a text's beginning, and sets note if it cut the text.
func clipped(text string, note *string) string {
	if len(text) > maxMessage {
		*note = "A part of the message is not shown: run crabmem sessions show."
	}
	return clip.Bytes(text, maxMessage)
}
