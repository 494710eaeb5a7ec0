package search_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/fuzz/index"
	"crabmem/fuzz/sessionref"
	"crabmem/sessionlog"
	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/record"
	"crabmem/sessionlog/search"
)

// searchWords are the words of texts and queries. None is a stop word, because
// the model has no stop words.
var searchWords = strings.Fields(`alpha beta gamma delta epsilon deploy deploying deployed port listens daemon
	daemonReload http2Server snake_case 6688 v1 x2 東京都庁 記憶 セッション 서울 Ελλάδα naïveté GRÖSSE Straße
	internationalization kernel panics rollback schema migration "quoted" C:\\path <tag> &amp; crab user telegram`)

func searchText(r *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(searchWords[min(r.IntN(len(searchWords)), r.IntN(len(searchWords)))])
		b.WriteString([]string{" ", "\n", ",", "-", "\t", "? "}[min(r.IntN(6), r.IntN(10))])
	}
	return b.String()
}

// modelSession is a session of the model: the records of its file.
type modelSession struct {
	file string // its name
	id   string
	meta sessionlog.Meta // with the title that counts
	mod  time.Time
	msgs []modelMessage
}

// modelMessage is a message or, with the role compact, a summary.
type modelMessage struct {
	sessionlog.Message
	line    int64
	summary bool
}

// text returns the indexed text of a message.
func (m *modelMessage) text(tools bool) string {
	if !tools && (m.Role == "tool" || m.Role == "function" || m.ToolCallID != "") {
		return ""
	}
	parts := []string{m.Content}
	for _, c := range m.ToolCalls {
		parts = append(parts, c.Function.Name)
		if tools {
			parts = append(parts, c.Function.Arguments)
		}
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}

// shown returns the text of message i in a window, not shortened.
func (s *modelSession) shown(i int, tools bool) string {
	m := &s.msgs[i]
	if !tools && (m.Role == "tool" || m.Role == "function" || m.ToolCallID != "") {
		of := ""
		for j := i - 1; j >= 0; j-- {
			if s.msgs[j].Role == "tool" {
				continue
			}
			for _, c := range s.msgs[j].ToolCalls {
				if c.ID == m.ToolCallID && c.Function.Name != "" {
					of = " of " + c.Function.Name
				}
			}
			break
		}
		return fmt.Sprintf("[result%s, %d bytes]", of, len(m.Content))
	}
	var calls []string
	for _, c := range m.ToolCalls {
		name := c.Function.Name
		if tools {
			name += " " + c.Function.Arguments
		}
		calls = append(calls, name)
	}
	text := m.Content
	if calls != nil {
		if text != "" {
			text += "\n"
		}
		text += "[calls " + strings.Join(calls, ", ") + "]"
	}
	return text
}

// searchModel is the model of a search: a list of all documents, the newest
// first, which every query scans. Neighbor boosts and re-ranking use an index
// of the list.
type searchModel struct {
	analyzer analysis.Analyzer
	tools    bool
	sessions []*modelSession
	docs     *index.Model
	ranked   *bm25.Index
	at       []modelDoc // by ID in docs
	ids      map[modelDoc]uint64
}

type modelDoc struct {
	session *modelSession
	msg     int // -1 for the session itself
}

// newSearchModel orders sessions as an index does that reads them all.
func newSearchModel(t testing.TB, a analysis.Analyzer, tools bool, sessions []*modelSession) *searchModel {
	m := &searchModel{analyzer: a, tools: tools, sessions: slices.Clone(sessions), docs: index.NewModel(a), ranked: bm25.New(a), ids: make(map[modelDoc]uint64)}
	slices.SortFunc(m.sessions, func(a, b *modelSession) int {
		x, _ := a.meta.Created()
		y, _ := b.meta.Created()
		return cmp.Or(y.Compare(x), cmp.Compare(len(b.id), len(a.id)), cmp.Compare(b.id, a.id))
	})
	for _, s := range m.sessions {
		for i := len(s.msgs) - 1; i >= -1; i-- {
			d := modelDoc{s, i}
			if i >= 0 && s.msgs[i].text(tools) == "" {
				continue
			}
			m.ids[d] = uint64(len(m.at))
			m.at = append(m.at, d)
			m.docs.Add(m.doc(m.ids[d]))
		}
	}
	if err := m.ranked.Build(t.Context(), len(m.at), func(i int) bm25.Doc { return m.doc(uint64(i)) }); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *searchModel) doc(id uint64) bm25.Doc {
	d := m.at[id]
	text := d.session.meta.Title + " " + d.session.meta.Agent + " " + d.session.meta.CreatedBy
	if d.msg >= 0 {
		text = d.session.msgs[d.msg].text(m.tools)
	}
	return bm25.Doc{ID: id, Fields: m.fields(d, text)}
}

// fields adds the day and the name of the author.
func (m *searchModel) fields(d modelDoc, texts ...string) []string {
	if !d.says() || m.analyzer == analysis.Plain {
		return texts
	}
	day, author := "", d.role()
	if created, ok := d.session.meta.Created(); ok {
		day = created.UTC().Format(time.DateOnly)
	}
	if slices.Contains([]string{"user", "assistant", "system", "developer", "tool"}, author) {
		author = ""
	}
	return append(slices.Clip(texts), day, author)
}

// rank ranks as an index does, with the context of messages.
func (m *searchModel) rank(q bm25.Query) bm25.Result {
	q.Correct = true
	q.Context = &bm25.Context{Message: m.message, Weights: bm25.DefaultWeights}
	q.Texts = func(id uint64) []string {
		d := m.at[id]
		if d.msg < 0 {
			return m.doc(id).Fields
		}
		msg := &d.session.msgs[d.msg]
		parts := []string{msg.Content}
		for _, c := range msg.ToolCalls {
			parts = append(parts, c.Function.Name)
			if m.tools {
				parts = append(parts, c.Function.Arguments)
			}
		}
		return m.fields(d, parts...)
	}
	return m.ranked.Search(q)
}

// says reports whether a document is a message with content.
func (d modelDoc) says() bool {
	if d.msg < 0 {
		return false
	}
	m := &d.session.msgs[d.msg]
	return !m.summary && m.Role != "tool" && m.Role != "function" && m.ToolCallID == "" && m.Content != ""
}

// message finds the neighbors of a message by a scan of the session.
func (m *searchModel) message(id uint64) (b bm25.Message, ok bool) {
	d := m.at[id]
	if !d.says() {
		return b, false
	}
	at := slices.Index(m.sessions, d.session)
	b = bm25.Message{Conversation: uint64(at), Author: bm25.Author(d.role()), Asks: analysis.Asked(d.session.msgs[d.msg].Content)}
	for i := range d.session.msgs {
		switch n := (modelDoc{d.session, i}); {
		case d.session.msgs[i].summary && i < d.msg:
			b.HasPrevious = false
		case d.session.msgs[i].summary && i > d.msg:
			return b, true
		case n.says() && i < d.msg:
			b.Previous, b.HasPrevious = m.ids[n], true
		case n.says() && i > d.msg:
			b.Next, b.HasNext = m.ids[n], true
			return b, true
		}
	}
	return b, true
}

func (d modelDoc) role() string {
	if d.msg < 0 {
		return search.RoleSession
	}
	return d.session.msgs[d.msg].Role
}

// passes reports whether a document passes a query's filters.
func (d modelDoc) passes(q *search.Query) bool {
	s := d.session
	created, _ := s.meta.Created()
	return (q.Agent == "" || s.meta.Agent == q.Agent) && (q.Sender == "" || s.meta.CreatedBy == q.Sender) && (q.Created == nil || q.Created(s.meta.CreatedBy)) &&
		(q.Since.IsZero() || !s.mod.Before(q.Since)) && (q.Until.IsZero() || !created.After(q.Until)) &&
		(len(q.Roles) == 0 || slices.Contains(q.Roles, d.role()))
}

// search models Index.Search; plain omits everything but BM25.
func (m *searchModel) search(q search.Query, plain bool) *search.Result {
	limit := q.Limit
	if limit <= 0 {
		limit = 5
	}
	find := m.rank
	if plain {
		find = m.docs.Search
	}
	found := find(bm25.Query{
		Text: q.Text, Limit: min(limit, 20), Count: true,
		Filter: func(id uint64) bool { return m.at[id].passes(&q) },
	})
	r := &search.Result{Total: found.Total, Corrections: found.Corrections}
	for _, d := range m.at {
		if d.passes(&q) {
			r.Searched++
		}
	}
	for _, h := range found.Hits {
		d := m.at[h.ID]
		s := d.session
		hit := search.Hit{ID: s.id, File: s.file, Agent: s.meta.Agent, CreatedBy: s.meta.CreatedBy, Title: s.meta.Title,
			Role: d.role(), Line: 1, Score: h.Score}
		if d.msg < 0 {
			hit.Snippet = strings.Join(slices.DeleteFunc([]string{s.meta.Title, s.meta.Agent, s.meta.CreatedBy},
				func(s string) bool { return s == "" }), " · ")
		} else {
			hit.Line = s.msgs[d.msg].line
			hit.Snippet = s.shown(d.msg, m.tools)
		}
		n := q.Window
		if n == 0 {
			n = 5
		}
		n = max(0, min(n, 16, len(s.msgs)))
		from := max(0, min(d.msg-(n-1)/2, len(s.msgs)-n))
		for i := from; i < from+n; i++ {
			hit.Window = append(hit.Window, search.Windowed{Line: s.msgs[i].line, Role: s.msgs[i].Role, Text: s.shown(i, m.tools)})
		}
		r.Hits = append(r.Hits, hit)
	}
	return r
}

// compareResults describes the difference between a result and the model's.
// Texts of more than 1 KiB are parts of the model's.
func compareResults(got, want *search.Result) error {
	if got.Total != want.Total || got.Searched != want.Searched || len(got.Hits) != len(want.Hits) {
		return fmt.Errorf("%d hits of %d in %d, want %d of %d in %d",
			len(got.Hits), got.Total, got.Searched, len(want.Hits), want.Total, want.Searched)
	}
	for i := range got.Hits {
		g, w := got.Hits[i], want.Hits[i]
		if !sameText(g.Snippet, w.Snippet) || len(g.Window) != len(w.Window) {
			return fmt.Errorf("hit %d:\n%+v\nwant\n%+v", i, g, w)
		}
		for j, line := range g.Window {
			long := w.Window[j].Text
			if w.Window[j].Text = line.Text; line != w.Window[j] || !sameText(line.Text, long) {
				return fmt.Errorf("hit %d, line %d of its window:\n%+v\nwant\n%q", i, j, line, long)
			}
		}
		w.Snippet, g.Window, w.Window = g.Snippet, nil, nil
		if fmt.Sprintf("%+v", g) != fmt.Sprintf("%+v", w) || g.Score != w.Score {
			return fmt.Errorf("hit %d:\n%+v\nwant\n%+v", i, g, w)
		}
	}
	return nil
}

// sameText reports whether got is the text, or a marked part of a text over the
// limit. For a result whose line is not read completely, got describes a result
// if that is known, possibly without its tool.
func sameText(got, text string) bool {
	if got == "" && strings.HasPrefix(text, "[result") {
		var all int
		fmt.Sscanf(text[strings.LastIndexByte(text, ',')+1:], "%d", &all)
		return all > 50_000
	}
	if before, n, ok := strings.Cut(got, ", over "); ok && strings.HasPrefix(got, "[result") {
		wantBefore, want, _ := strings.Cut(text, ", ")
		var part, all int
		fmt.Sscanf(n, "%d", &part)
		fmt.Sscanf(want, "%d", &all)
		return (before == wantBefore || before == "[result") && 50_000 < part && part < 1<<16 && part < all
	}
	if len(text) <= 1<<10 {
		return got == text
	}
	part := strings.TrimSuffix(strings.TrimPrefix(got, "…"), "…")
	return len(got) <= 1<<10 && len(got) > 900 && part != got && strings.Contains(text, part)
}

var (
	searchAgents  = []string{"crab", "Crab Two", "planner", "蟹"}
	searchSenders = []string{"user", "telegram:42", "telegram-42", "", "cron"}
	searchRoles   = []string{"user", "assistant", "tool", "system", "developer", "critic", "function", "compact", "session"}
)

// randomMessage draws a message that is not compared with others in its session.
func randomMessage(r *rand.Rand, callID string) sessionlog.Message {
	role := searchRoles[min(r.IntN(len(searchRoles)), r.IntN(len(searchRoles)))]
	m := sessionlog.Message{Role: role, Content: searchText(r, r.IntN(20))}
	switch {
	case r.IntN(40) == 0:
		m.Content = searchText(r, 100+r.IntN(400))
	case r.IntN(400) == 0:
		m.Content = searchText(r, 10_000)
	}
	if r.IntN(8) == 0 {
		m.ReasoningContent = searchText(r, 5)
	}
	if role == "tool" || role == "function" || r.IntN(30) == 0 {
		m.ToolCallID = callID
	}
	// The calls of a long message are after the bytes that a window reads.
	if role == "assistant" && len(m.Content) < 50_000 && r.IntN(2) == 0 {
		for i := range 1 + r.IntN(3) {
			m.ToolCalls = append(m.ToolCalls, sessionlog.ToolCall{ID: fmt.Sprintf("c%d", i), Type: "function",
				Function: sessionlog.Function{Name: []string{"bash", "read_file", "askUser", ""}[r.IntN(4)], Arguments: searchText(r, 4)}})
		}
	}
	return m
}

// searchFolder writes files of random sessions, with other lines between, and
// returns their content.
func searchFolder(t testing.TB, r *rand.Rand, dir string, sessions int) []*modelSession {
	t.Helper()
	var list []*modelSession
	for n := range sessions {
		s := &modelSession{mod: time.Unix(1_750_000_000+int64(r.IntN(1000)), 0)}
		s.meta = sessionlog.Meta{Agent: searchAgents[r.IntN(len(searchAgents))], CreatedBy: searchSenders[r.IntN(len(searchSenders))],
			CreatedAt: record.Timestamp(time.Unix(1_750_000_000-int64(r.IntN(1000)), 0))}
		if r.IntN(5) == 0 {
			s.meta.CreatedAt = "yesterday"
		}
		if r.IntN(2) == 0 {
			s.meta.Title = searchText(r, 1+r.IntN(4))
		}
		buf := line.AppendMeta(nil, &s.meta)
		number := int64(1)
		add := func(raw []byte) {
			buf = append(buf, raw...)
			number++
		}
		for range r.IntN(40) {
			switch k := r.IntN(30); {
			case k == 0:
				s.msgs = append(s.msgs, modelMessage{sessionlog.Message{Role: search.RoleCompact, Content: searchText(r, 1+r.IntN(10))}, number + 1, true})
				add(line.AppendMarker(nil, s.msgs[len(s.msgs)-1].Content))
				if r.IntN(2) == 0 { // as the reference does
					break
				}
				fallthrough
			case k == 1:
				add(line.AppendMetaRecord(nil, searchText(r, r.IntN(4)), 7))
			case k == 5:
				add([]byte("{\"x\":1}\n"))
			case k == 2:
				add([]byte("\n"))
			case k == 3:
				add([]byte("{\"role\":\"user\",\"content\":\"alpha beta\n")) // bad
			case k == 4: // glued
				m := randomMessage(r, "c0")
				for len(m.Content) > 50_000 { // the beginning of such a line shows no text
					m = randomMessage(r, "c0")
				}
				s.msgs = append(s.msgs, modelMessage{m, number + 1, false})
				add(append([]byte(`{"role":"user","conte`), line.AppendMessage(nil, &m)...))
			default:
				m := randomMessage(r, fmt.Sprintf("c%d", r.IntN(3)))
				s.msgs = append(s.msgs, modelMessage{m, number + 1, false})
				add(line.AppendMessage(nil, &m))
			}
		}
		if r.IntN(6) == 0 && len(s.msgs) > 0 { // the last line without its end, and nonsense
			m := randomMessage(r, "c1")
			s.msgs = append(s.msgs, modelMessage{m, number + 1, false})
			add(line.AppendMessage(nil, &m))
			buf = buf[:len(buf)-1]
		}
		c, err := line.ReadContext(bytes.NewReader(buf), int64(len(buf)), &line.ReadOptions{Lenient: true})
		if err != nil {
			t.Fatal(err)
		}
		s.meta.Title = c.Meta.Title
		slug := sessionref.Slug(s.meta.Agent) + "_" + sessionref.Slug(s.meta.CreatedBy)
		s.id = fmt.Sprintf("%s_%d", slug, n+1)
		s.file = s.id + ".jsonl"
		switch r.IntN(5) {
		case 0:
			s.file = s.id + "_some-title.jsonl"
		case 1:
			s.id = fmt.Sprintf("other%d", n)
			s.file = s.id + ".jsonl"
		}
		path := filepath.Join(dir, s.file)
		if err := os.WriteFile(path, buf, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, s.mod, s.mod); err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

func randomSearch(r *rand.Rand) search.Query {
	q := search.Query{Text: searchText(r, 1+r.IntN(5)), Limit: r.IntN(25) - 2, Window: r.IntN(20) - 2}
	if r.IntN(3) == 0 {
		q.Agent = searchAgents[r.IntN(len(searchAgents))]
	}
	if r.IntN(3) == 0 {
		q.Sender = searchSenders[r.IntN(len(searchSenders))]
	}
	if r.IntN(4) == 0 {
		excluded := searchSenders[r.IntN(len(searchSenders))]
		q.Created = func(by string) bool { return by != excluded }
	}
	if r.IntN(4) == 0 {
		q.Since = time.Unix(1_750_000_000+int64(r.IntN(1000)), 0)
	}
	if r.IntN(4) == 0 {
		q.Until = time.Unix(1_750_000_000-int64(r.IntN(1000)), 0)
	}
	for range max(0, r.IntN(6)-2) {
		q.Roles = append(q.Roles, searchRoles[r.IntN(len(searchRoles))])
	}
	return q
}
