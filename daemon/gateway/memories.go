package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
)

// Memory is an entry of a store.
type Memory struct {
	ID        uint64   `json:"id"`
	Name      string   `json:"name"`
	Kind      string   `json:"kind" jsonschema:"note or archive"`
	CreatedAt string   `json:"created_at" jsonschema:"RFC 3339"`
	Bytes     int      `json:"bytes" jsonschema:"size of the content"`
	Aliases   []string `json:"aliases"`
	ETag      string   `json:"etag" jsonschema:"of this state of the entry, for If-Match"`
	Content   *string  `json:"content,omitempty"`
}

// memoryOf returns an entry, with its content if full is set.
func memoryOf(e *crmem.Entry, full bool) *Memory {
	m := &Memory{ID: e.ID, Name: e.Name, Kind: e.Kind.String(), CreatedAt: timeOf(int64(e.CreatedAt)), Bytes: len(e.Content),
		Aliases: append([]string{}, e.Aliases...), ETag: op.ETag(e)}
	if full {
		m.Content = &e.Content
	}
	return m
}

func timeOf(unix int64) string { return time.Unix(unix, 0).UTC().Format(time.RFC3339) }

// matches reports whether the header If-Match contains an etag. W/ etags never match.
func matches(header, etag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimSpace(one); one == etag || one == "*" {
			return true
		}
	}
	return false
}

type memoryList struct {
	Items []*Memory `json:"items"`
	Next  string    `json:"next,omitempty" jsonschema:"value of after for the next page; absent on the last page"`
}

type newMemory struct {
	Name    string   `json:"name"`
	Content string   `json:"content"`
	Aliases []string `json:"aliases,omitempty"`
}

type changedMemory struct {
	Content string    `json:"content"`
	Aliases *[]string `json:"aliases,omitempty" jsonschema:"absent: they do not change"`
}

// spaceParam is the space of an operation.
var spaceParam = param{name: "space", summary: "a space that the key may use; absent: its own", kind: "string", size: 64}

var limitParam = param{name: "limit", summary: "items of a page, at least 1; absent: 50", kind: "integer", most: 200}

const defaultPage = 50

// maxPage is the number of bytes of contents after which a page ends.
const maxPage = 8 << 20

var memoryRoutes = []route{
	{method: "GET", path: "/v1/memories", summary: "List entries by ID", out: of[memoryList](), status: 200, fails: []int{403},
		query: []param{spaceParam, limitParam,
			{name: "after", summary: "next of the page before", kind: "integer"},
			{name: "kind", summary: "only this kind", kind: "string", words: []string{"note", "archive"}},
			{name: "name", summary: "only the entry with this name or alias", kind: "string", size: 4096},
			{name: "view", summary: "full: with contents; absent: basic", kind: "string", words: []string{"basic", "full"}}},
		run: (*call).listMemories},
	{method: "POST", path: "/v1/memories", summary: "Create a note", in: of[newMemory](), big: true, once: true, out: of[Memory](), status: 201,
		fails: []int{403, 409, 422, 502, 507}, query: []param{spaceParam}, run: onceWith((*call).createMemory, (*call).replayCreated)},
	{method: "GET", path: "/v1/memories/{id}", summary: "Read an entry", out: of[Memory](), status: 200, fails: []int{403},
		query: []param{spaceParam}, run: (*call).readMemory},
	{method: "PUT", path: "/v1/memories/{id}", summary: "Replace content and aliases of a note", in: of[changedMemory](), big: true, once: true, match: true,
		out: of[Memory](), status: 200, fails: []int{403, 409, 412, 422, 428, 502, 507}, query: []param{spaceParam}, run: onceWith((*call).changeMemory, (*call).replayMemory)},
	{method: "DELETE", path: "/v1/memories/{id}", summary: "Remove an entry", once: true, match: true, status: 204, fails: []int{403, 409, 412, 428, 502, 507},
		query: []param{spaceParam, {name: "archive", summary: "true: also an archive", kind: "boolean"}}, run: once((*call).removeMemory, (*call).replayNothing)},
	{method: "POST", path: "/v1/recall", summary: "Search entries by words, and by meaning", in: of[question](), out: of[answer](), status: 200,
		fails: []int{403}, query: []param{spaceParam}, run: with((*call).recall)},
}

// in calls f with a client for the space of the request.
func (c *call) in(f func(*client.Client) error) error { return c.inSpace(c.text("space"), f) }

// inSpace calls f with a client for a space. An empty name is that of the key.
func (c *call) inSpace(name string, f func(*client.Client) error) error {
	if name == "" {
		return f(c.daemon.Client)
	}
	return use(c.clientOf(name), f)
}

// clientOf returns a client for a space, which the caller closes.
func (c *call) clientOf(space string) *client.Client {
	return &client.Client{Addr: c.daemon.Addr, As: c.daemon.As, By: c.daemon.By, Space: space}
}

// use calls f with a client, and closes it.
func use(d *client.Client, f func(*client.Client) error) error { return errors.Join(f(d), d.Close()) }

func (c *call) listMemories() (any, error) {
	list := memoryList{Items: []*Memory{}}
	limit := int(max(c.number("limit", defaultPage), 1))
	full := c.text("view") == "full"
	o := op.EntryFilter{Content: true, After: c.number("after", 0), Limit: limit + 1}
	if k := c.text("kind"); k != "" {
		o.Kinds = make([]crmem.Kind, 1)
		if err := o.Kinds[0].UnmarshalText([]byte(k)); err != nil {
			return nil, err
		}
	}
	err := c.in(func(d *client.Client) error {
		if name := c.text("name"); name != "" {
			e, err := op.GetEntry.Do(c.r.Context(), d, op.EntryName{Name: name})
			if errors.Is(err, crmem.ErrNotFound) || len(o.Kinds) > 0 && e.Kind != o.Kinds[0] || e.ID <= o.After {
				return nil
			}
			list.Items = append(list.Items, memoryOf(&e, full))
			return err
		}
		size := 0
		for e, err := range op.Entries(c.r.Context(), d, o) {
			if err != nil {
				return err
			}
			size += len(e.Content)
			if n := len(list.Items); n == limit || n > 0 && full && size > maxPage {
				list.Next = strconv.FormatUint(list.Items[n-1].ID, 10)
				break
			}
			list.Items = append(list.Items, memoryOf(&e, full))
		}
		return nil
	})
	return list, err
}

// entry returns the entry with the ID in the path.
func (c *call) entry(d *client.Client) (*crmem.Entry, error) {
	id, ok := positive(c.r.PathValue("id"))
	if !ok {
		return nil, c.noEntry()
	}
	e, err := op.GetEntry.Do(c.r.Context(), d, op.EntryName{ID: id})
	if errors.Is(err, crmem.ErrNotFound) {
		return nil, c.noEntry()
	}
	return &e, err
}

// noEntry returns the problem that no entry has the ID in the path.
func (c *call) noEntry() *Problem {
	return problemf(http.StatusNotFound, "not_found", "no entry %s", printable(c.r.PathValue("id"))).fix("GET /v1/memories lists the entries")
}

// respond returns an entry as the response, with its etag.
func (c *call) respond(e *crmem.Entry) *Memory {
	m := memoryOf(e, true)
	c.w.Header().Set("ETag", m.ETag)
	return m
}

func (c *call) readMemory() (m any, err error) {
	err = c.in(func(d *client.Client) error {
		e, err := c.entry(d)
		if err == nil {
			m = c.respond(e)
		}
		return err
	})
	return m, err
}

// createMemory adds a note.
func (c *call) createMemory(in *newMemory) (m any, err error) {
	add := crmem.Add{Name: in.Name, Content: in.Content, Aliases: in.Aliases}
	if err := add.Validate(); err != nil {
		return nil, invalidf("%v", err)
	}
	err = c.in(func(d *client.Client) error {
		list, err := op.ApplyOps(c.r.Context(), d, crmem.Unchanged{Entry: crmem.Entry{Name: in.Name}}, add)
		if errors.Is(err, crmem.ErrExists) || errors.Is(err, crmem.ErrStale) {
			return problemf(http.StatusConflict, "exists", "an entry has the name %q", printable(in.Name)).fix("choose another name, or change the entry with PUT")
		}
		if err != nil {
			return err
		}
		e := &list[0]
		m = c.respond(e)
		c.located(e.ID)
		return nil
	})
	return m, err
}

// changed returns the problem of a precondition that does not hold.
func changed(e *crmem.Entry) *Problem {
	p := problemf(http.StatusPreconditionFailed, "changed", "the entry has changed").fix("compare current with your change, and send its etag")
	p.Current = memoryOf(e, true)
	return p
}

// archived refuses a change of an archive.
func archived(e *crmem.Entry) *Problem {
	return problemf(http.StatusForbidden, "archive", "%q is an archive of a conversation", printable(e.Name)).fix("change a note; an admin removes an archive with archive=true")
}

// changeMemory replaces content and aliases.
func (c *call) changeMemory(in *changedMemory) (m any, err error) {
	err = c.in(func(d *client.Client) error {
		e, err := c.entry(d)
		if err != nil {
			return err
		}
		if e.Kind != crmem.Note {
			return archived(e)
		}
		aliases := e.Aliases
		if in.Aliases != nil {
			aliases = *in.Aliases
		}
		if !matches(c.r.Header.Get("If-Match"), op.ETag(e)) {
			return changed(e)
		}
		update := crmem.Update{Name: e.Name, Content: in.Content, Aliases: aliases}
		if err := update.Validate(); err != nil {
			return invalidf("%v", err)
		}
		list, err := c.apply(d, e, update)
		if err == nil {
			m = c.respond(&list[0])
		}
		return err
	})
	return m, err
}

// apply applies an operation to an entry that has not changed since it was read.
func (c *call) apply(d *client.Client, e *crmem.Entry, change crmem.Op) ([]crmem.Entry, error) {
	list, err := op.ApplyOps(c.r.Context(), d, crmem.Unchanged{Entry: *e}, change)
	if errors.Is(err, crmem.ErrStale) {
		now, err := c.entry(d)
		if err != nil {
			return nil, err
		}
		return nil, changed(now)
	}
	return list, err
}

// removeMemory removes an entry.
func (c *call) removeMemory() (any, error) {
	return nil, c.in(func(d *client.Client) error {
		e, err := c.entry(d)
		if err != nil {
			return err
		}
		if e.Kind != crmem.Note && !c.flag("archive") {
			return archived(e)
		}
		if !matches(c.r.Header.Get("If-Match"), op.ETag(e)) {
			return changed(e)
		}
		_, err = c.apply(d, e, crmem.Remove{Name: e.Name})
		return err
	})
}

// raw is JSON of another package.
type raw = json.RawMessage
