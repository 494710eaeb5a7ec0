package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/bm25/clip"
	"crabmem/crmem"
	"crabmem/crmem/recall"
	"crabmem/daemon/agent"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/daemon/secret/scan"
	"crabmem/daemon/space"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
	"crabmem/sessionlog/search"
)

// Limits of the memory tools' results.
const (
	maxHits      = 50
	recallTokens = 1500 // of names and snippets
	maxRecall    = 8000 // largest limit of tokens in a call
	maxBodies    = 20   // texts by name in one call
)

// noMemories begins the result of recall without a hit.
const noMemories = "no memories found"

type rememberArgs struct {
	Name    string   `json:"name" jsonschema:"a short name for the subject of the note, in words you would search for"`
	Content string   `json:"content" jsonschema:"the text; it replaces the text of an existing note with this name"`
	Aliases []string `json:"aliases,omitempty" jsonschema:"other words to find it by"`
	op.MetadataArgs
}

type forgetArgs struct {
	Name string `json:"name" jsonschema:"the exact name of the note"`
}

type recallArgs struct {
	Query        string   `json:"query,omitempty" jsonschema:"what to look for"`
	Limit        int      `json:"limit,omitempty" jsonschema:"at most this many; the configured default when absent"`
	Names        []string `json:"names,omitempty" jsonschema:"return the full texts of these entries instead of a search"`
	BudgetTokens int      `json:"budget_tokens,omitempty" jsonschema:"tokens of names and snippets; 1500 when absent"`
	op.FilterArgs
	op.RankArgs
}

type searchArgs struct {
	Query  string `json:"query" jsonschema:"what to look for in past conversations"`
	Limit  int    `json:"limit,omitempty" jsonschema:"at most this many; 5 when absent"`
	Window int    `json:"window,omitempty" jsonschema:"messages shown around each; 3 when absent"`
}

// memoryTools returns the tools of RFC 0150, and the search in the agent's
// sessions.
func (d *Daemon) memoryTools() []tool.Tool {
	return []tool.Tool{
		tool.New(tool.Remember, "Save a note permanently. An existing note with the same name is replaced.", d.rememberTool),
		tool.New(tool.Forget, "Remove a note.", d.forgetTool),
		tool.New(tool.Recall, "Search the notes and the summaries of compacted conversations. Returns names and snippets; pass names to read full texts.", d.recallTool).Reader(),
		tool.New(tool.SessionSearch, "Search the messages of your past conversations.", d.searchTool).Reader(),
	}
}

// guard checks the texts that agents write for secrets.
func (d *Daemon) guard() op.Guard {
	return op.Guard{
		Policy: func() (scan.Policy, error) { return d.setup().config.Secrets, nil },
		Warn:   func(message string) { d.log.Warn(message) },
	}
}

// record returns the text to keep for the result of a tool or a summary.
func (d *Daemon) record(text string) string {
	policy := d.setup().config.Secrets
	kept, found := policy.Record(text, d.known())
	if len(found) > 0 && policy == scan.Warn {
		d.log.Warn("the session contains " + scan.Describe(text, found))
	}
	return kept
}

// actor returns who makes the changes of a call.
func (d *Daemon) actor(c tool.Call) crmem.By {
	by := crmem.By{Agent: c.Agent, Call: c.ID, Origin: c.Requester}
	if l, err := d.loaded.Get(c.Session); err == nil {
		by.Session = l.StoredID()
	}
	for _, field := range (*crmem.Actor)(&by).Fields() { // models invent IDs of calls
		*field = clip.Bytes(strings.ToValidUTF8(*field, ""), crmem.MaxActorField)
	}
	return by
}

func (d *Daemon) rememberTool(ctx context.Context, c tool.Call, args rememberArgs) (string, error) {
	name, err := c.Scope.WriteSpace(d.spacesOf(c.Workspace, c.Agent)[0])
	if err != nil {
		return "", err
	}
	edit, err := args.Edit()
	if err != nil {
		return "", fmt.Errorf("failed to save entry: %w", err)
	}
	if c.Dir != d.dir && !space.IsOfWorkspace(name) { // of a session without a directory
		edit.New = op.ProjectField(sessionlog.ProjectOf(d.fs, c.Dir))
	}
	o := crmem.Remember{Name: args.Name, Content: args.Content, Aliases: args.Aliases, Metadata: edit}
	var r op.Written
	err = d.writeSpace(name, func(s *crmem.Store) (err error) {
		if limit := (quota{Entries: c.Scope.Memory.MaxEntries, Bytes: c.Scope.Memory.MaxBytes}); limit.Entries > 0 {
			d.limited.Lock()
			defer d.limited.Unlock()
			if err := limit.check(s, &o); err != nil {
				return err
			}
		}
		if f := agent.FlushOf(ctx); f != nil {
			return d.collect(f, s, o)
		}
		r, err = op.Remember.Do(ctx, op.Store{Store: s, By: d.actor(c), Guard: d.guard(), Semantic: d.semantic}, op.Note{Remember: o, Similar: c.Scope.Memory.Reads.Allows(name)})
		return err
	})
	if err != nil {
		if errors.Is(err, crmem.ErrKind) {
			return "", fmt.Errorf("%s is an archive of a conversation, and cannot be overwritten: choose another name", args.Name)
		}
		return "", fmt.Errorf("failed to save entry: %w", err)
	}
	out := "remembered: " + args.Name
	if r.Replaced != nil {
		out += " (replaced the earlier text)"
	}
	if len(r.Similar) == 0 {
		return out, nil
	}
	q := quotation{head: out + "\nThese notes have similar names or texts. If one covers the same subject, update it and forget the new note. If the new note replaces one, remember it again with supersedes."}
	for _, name := range r.Similar {
		fmt.Fprintf(&q, "- %s\n", display.OneLine(name))
	}
	return q.end(), nil
}

func (d *Daemon) forgetTool(_ context.Context, c tool.Call, args forgetArgs) (string, error) {
	name, err := c.Scope.WriteSpace(d.spacesOf(c.Workspace, c.Agent)[0])
	if err != nil {
		return "", err
	}
	switch err := d.inSpace(name, func(s *crmem.Store) error { return s.Forget(args.Name, d.actor(c)) }); {
	case errors.Is(err, crmem.ErrNotFound) || space.IsUnwritten(name, err):
		return "", fmt.Errorf("no entry named: %s", args.Name)
	case errors.Is(err, crmem.ErrKind):
		return "", fmt.Errorf("%s is an archive of a conversation: only the user removes it, with crabmem forget --archive", args.Name)
	case err != nil:
		return "", err
	}
	return "forgot: " + args.Name, nil
}

func (d *Daemon) recallTool(ctx context.Context, c tool.Call, args recallArgs) (string, error) {
	if len(args.Names) > 0 {
		return d.bodies(c, args.Names)
	}
	limit := args.Limit
	if limit <= 0 {
		limit = d.setup().config.RecallLimit
	}
	tokens := args.BudgetTokens
	if tokens <= 0 {
		tokens = recallTokens
	}
	q := op.Question{Query: args.Query, Limit: min(limit, maxHits), FilterArgs: args.FilterArgs, RankArgs: args.RankArgs, Semantic: d.semantic != nil, Weights: true, Present: sessionlog.ProjectOf(d.fs, c.Dir)}
	a, err := d.recallSpaces(ctx, c, q)
	if err != nil {
		return "", err
	}
	a.Spend(min(tokens, maxRecall), analysis.Standard)
	note := a.Meaning.Note("entry", "entries")
	if len(a.Hits)+a.LeftOut == 0 {
		return noted(noMemories, note), nil
	}
	b := quotation{head: noted(fmt.Sprintf("%d of %d matches", len(a.Hits), a.Total), note)}
	b.corrections(a.Corrections)
	for i := range a.Hits {
		h := &a.Hits[i]
		if h.Message != nil {
			b.message(h.Message)
			b.WriteString(h.Text() + "\n")
			continue
		}
		part, text := "full text", h.Content
		if h.Snippet != nil {
			part, text = "snippet", h.Snippet
		}
		for _, note := range h.Marks.Notes() {
			part += ", " + display.OneLine(note)
		}
		b.entry(h.Space, &crmem.Entry{Name: h.Name, Kind: h.Kind, CreatedAt: h.CreatedAt}, part, *text)
	}
	if a.LeftOut > 0 {
		fmt.Fprintf(&b, "%d more matches exceed the limit\n", a.LeftOut)
	}
	return b.end(), nil
}

// bodies returns the full texts of entries, from every space that the call reads.
func (d *Daemon) bodies(c tool.Call, names []string) (string, error) {
	if len(names) > maxBodies {
		return "", fmt.Errorf("%d names, at most %d at once", len(names), maxBodies)
	}
	spaces, err := c.Scope.ReadSpaces(d.spacesOf(c.Workspace, c.Agent))
	if err != nil {
		return "", err
	}
	b := quotation{head: "full texts"}
	for _, n := range names {
		var missing error
		found := false
		for _, name := range spaces {
			err := d.inSpace(name, func(s *crmem.Store) error {
				e, err := s.Get(n)
				if err == nil {
					found = true
					b.entry(name, &e, "full text", e.Content)
				}
				return err
			})
			if space.IsUnwritten(name, err) {
				err = crmem.ErrNotFound
			}
			missing = cmp.Or(missing, err)
		}
		if !found {
			fmt.Fprintf(&b, "## %s\n%v\n", display.OneLine(n), missing)
		}
	}
	return b.end(), nil
}

// quotation is a result of a tool: a line of the daemon, and text of the store,
// which end fences.
type quotation struct {
	strings.Builder
	head string
}

// end returns the result. It cuts the text so that no limit for results removes
// the end of the fence.
func (q *quotation) end() string {
	text := q.String()
	if room := tool.MaxOutput - len(q.head) - 1 - len(display.Fence("")) - len(cutNote); len(text) > room {
		text = clip.Bytes(text, room) + cutNote
	}
	return q.head + "\n" + display.Fence(text)
}

// cutNote follows a text that end has cut.
const cutNote = "\n... [the rest exceeds the limit: pass fewer names]"

// noted appends what a result lacks to its description.
func noted(text, note string) string {
	if note == "" {
		return text
	}
	return text + "; " + display.OneLine(note)
}

// corrections writes the terms that replaced query words that no entry
// contains.
func (q *quotation) corrections(list []bm25.Correction) {
	for _, x := range list {
		fmt.Fprintf(q, "no text contains %q: searched for %s instead\n", x.Word, strings.Join(x.Words, ", "))
	}
}

// entry writes an entry of a space. The space main is not named.
func (q *quotation) entry(in string, e *crmem.Entry, part, text string) {
	if in == space.Main {
		in = ""
	} else {
		in = ", space " + in
	}
	fmt.Fprintf(q, "## %s\n(%s of %s, %s%s)\n", display.OneLine(e.Name), e.Kind, e.CreatedAt.Day(time.UTC), part, in)
	if text != "" {
		q.WriteString(strings.TrimRight(text, "\n") + "\n")
	}
}

// message writes the place of a message.
func (q *quotation) message(m *recall.Message) {
	fmt.Fprintf(q, "## %s\nsession: %s, line %d, %s\n", display.OneLine(cmp.Or(m.Title, m.Session)), m.Session, m.Line, m.Role)
}

// messagesOf returns a search in the sessions of the calling agent in its workspace, of the
// same trust: in a run of an admin, those that admins created; in a run for another
// identity, those that this identity created.
func (d *Daemon) messagesOf(c tool.Call) op.MessageSearcher {
	return func(ctx context.Context, q search.Query) (*search.Result, error) {
		if err := c.Scope.Tool(tool.SessionSearch); err != nil {
			return nil, err
		}
		x, err := d.sessionIndex()
		if err != nil {
			return nil, err
		}
		q.Agent, q.Workspace, q.Created = c.Agent, &c.Workspace, d.createdFor(c)
		return x.Search(ctx, q)
	}
}

// createdFor selects the identities whose sessions a call may search.
func (d *Daemon) createdFor(c tool.Call) func(by string) bool {
	rules := d.setup().config.Origins
	return func(by string) bool { return rules.Sees(c.Scope, by) }
}

func (d *Daemon) searchTool(ctx context.Context, c tool.Call, args searchArgs) (string, error) {
	q := search.Query{Text: args.Query, Limit: args.Limit, Window: args.Window, Semantic: d.semantic}
	if q.Window <= 0 {
		q.Window = 3
	}
	r, err := d.messagesOf(c)(ctx, q)
	if err != nil {
		return "", err
	}
	note := r.Meaning.Note("text", "texts")
	if len(r.Hits) == 0 {
		return noted("no sessions found", note), nil
	}
	b := quotation{head: noted(fmt.Sprintf("%d of %d matches", len(r.Hits), r.Total), note)}
	b.corrections(r.Corrections)
	for _, h := range r.Hits {
		b.message(&recall.Message{Session: h.ID, Title: h.Title, Role: h.Role, Line: h.Line})
		if len(h.Window) == 0 {
			fmt.Fprintf(&b, "%s\n", h.Snippet)
		}
		for _, w := range h.Window {
			text := w.Text
			if w.Line == h.Line && h.Snippet != "" {
				text = h.Snippet
			}
			fmt.Fprintf(&b, "- [%s] %s\n", w.Role, display.OneLine(text))
		}
	}
	return b.end(), nil
}
