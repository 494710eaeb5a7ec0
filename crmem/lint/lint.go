// Package lint finds entries that need a look: links that lead nowhere, metadata
// without effect, and entries that repeat or contradict each other. It changes nothing.
package lint

import (
	"cmp"
	"fmt"
	"sort"
	"strings"
	"time"
	"unicode"

	"crabmem/crmem"
	"crabmem/crmem/links"
	"crabmem/crmem/metadata"
)

// Kind is the kind of a finding.
type Kind string

// The kinds of findings.
const (
	BrokenLink    Kind = "broken_link"    // no entry has the name or the alias
	AmbiguousLink Kind = "ambiguous_link" // several entries have the alias
	NearDuplicate Kind = "near_duplicate" // another entry has nearly the same text
	Contradiction Kind = "contradiction"  // a link contradicts between valid entries
	Expired       Kind = "expired"        // the day of expires is over
	FrontMatter   Kind = "front_matter"   // the content looks as if it had metadata, but has none
	Value         Kind = "value"          // the value of a known key has no effect
	NotAdopted    Kind = "not_adopted"    // expires and supersedes have no effect
	Cycle         Kind = "cycle"          // the entry supersedes itself, through others or not
	UnreadEntry   Kind = "unread"         // no counted read returned the entry
)

// Kinds are all kinds.
var Kinds = []Kind{BrokenLink, AmbiguousLink, NearDuplicate, Contradiction, Expired, FrontMatter, Value, NotAdopted, Cycle, UnreadEntry}

// A Finding is a fault of an entry, or a reason to look at it.
type Finding struct {
	Kind    Kind     `json:"kind"`
	ID      uint64   `json:"id"`
	Name    string   `json:"name"`
	Line    int      `json:"line,omitempty" jsonschema:"of the content, from 1; absent if the finding concerns no line"`
	Others  []string `json:"others,omitempty" jsonschema:"the other entries that the finding is about"`
	Message string   `json:"message"`
	Remedy  string   `json:"remedy" jsonschema:"what to do"`
}

// cyclic are the relations of which a cycle makes no sense.
var cyclic = []string{metadata.Supersedes, metadata.CausedBy, metadata.PartOf}

// linter collects the findings of a store.
type linter struct {
	s     *crmem.Store
	now   time.Time
	graph *links.Graph
	nodes map[uint64]*links.Node
	list  []Finding
}

// Check returns the findings about the entries of a store at a time, ascending by ID
// and line. The store must not change during the check.
func Check(s *crmem.Store, now time.Time) []Finding {
	c := &linter{s: s, now: now, graph: links.NewGraph(s), nodes: make(map[uint64]*links.Node), list: []Finding{}}
	for i := range c.graph.Nodes {
		n := &c.graph.Nodes[i]
		c.nodes[n.ID] = n
	}
	settled := c.settled()
	for e := range s.All() {
		c.metadata(e)
		c.links(e, settled)
	}
	c.cycles()
	c.duplicates(settled)
	sort.SliceStable(c.list, func(i, j int) bool {
		a, b := &c.list[i], &c.list[j]
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Line, b.Line)) < 0
	})
	return c.list
}

// add adds a finding about an entry.
func (c *linter) add(kind Kind, e crmem.Entry, line int, remedy, message string, others ...string) {
	c.list = append(c.list, Finding{kind, e.ID, e.Name, line, others, message, remedy})
}

// metadata finds faults of the front matter of an entry.
func (c *linter) metadata(e crmem.Entry) {
	for _, p := range metadata.Check(e.Content) {
		if p.Key == "" {
			c.add(FrontMatter, e, p.Line, edit(e)+" and correct the line, or ignore this if the text is no metadata", "the front matter has no effect: "+p.Message)
		} else {
			c.add(Value, e, p.Line, edit(e)+" and correct the value", p.Message)
		}
	}
	m, _, _ := metadata.Parse(e.Content)
	expires, supersedes := m.Line(metadata.Expires), m.Line(metadata.Supersedes)
	switch {
	case !m.Adopted() && (m.Values(metadata.Expires) != nil || m.Values(metadata.Supersedes) != nil):
		line := max(expires, supersedes)
		if expires > 0 && supersedes > 0 {
			line = min(expires, supersedes)
		}
		c.add(NotAdopted, e, line, "run crabmem metadata adopt "+arg(e.Name), "expires and supersedes have no effect: the metadata is not adopted")
	case m.Expired(c.now):
		c.add(Expired, e, expires, forget(e)+", or "+edit(e)+" and set another day", "expired "+m.Values(metadata.Expires)[0])
	}
}

// links finds faults of the links of an entry, and contradictions.
func (c *linter) links(e crmem.Entry, settled map[pair]bool) {
	for _, l := range links.Of(c.s, e) {
		switch {
		case l.State == links.Broken:
			c.add(BrokenLink, e, l.Line, edit(e)+" and change the link, or run crabmem remember "+arg(l.Target)+" TEXT", fmt.Sprintf("the link %s [[%s]] leads to no entry", l.Relation, l.Target))
		case l.State == links.Ambiguous:
			c.add(AmbiguousLink, e, l.Line, edit(e)+" and link to a name", fmt.Sprintf("the link %s [[%s]] leads to no entry: several entries fit", l.Relation, l.Target), l.Owners...)
		case l.Relation == metadata.Contradicts && l.ToID != e.ID && !settled[pairOf(e.ID, l.ToID)]:
			settled[pairOf(e.ID, l.ToID)] = true
			c.add(Contradiction, e, l.Line, "run crabmem forget for the wrong entry, or "+edit(e)+" and add supersedes: \"[["+l.To+"]]\"", "contradicts another entry", l.To)
		}
	}
}

// settled returns the pairs of entries whose relation is clear: one supersedes the
// other. A contradiction between a superseded entry and a third one is settled, too.
func (c *linter) settled() map[pair]bool {
	settled := make(map[pair]bool)
	for _, edge := range c.graph.Edges {
		if edge.Relation == metadata.Supersedes || edge.Relation == metadata.Contradicts && (c.nodes[edge.From].Superseded || c.nodes[edge.To].Superseded) {
			settled[pairOf(edge.From, edge.To)] = true
		}
	}
	return settled
}

// cycles finds relations that lead back to their entry.
func (c *linter) cycles() {
	for _, relation := range cyclic {
		for _, way := range c.graph.Cycles(relation) {
			first, last := c.nodes[way[0]], c.nodes[way[min(1, len(way)-1)]]
			e, err := c.s.Get(first.Name)
			if err != nil {
				continue // removed during the check
			}
			var others []string
			for _, id := range way[1:min(len(way), 1+maxOthers)] {
				others = append(others, c.nodes[id].Name)
			}
			line := 0
			for _, l := range links.Of(c.s, e) {
				if l.Relation == relation && l.ToID == last.ID && line == 0 {
					line = l.Line
				}
			}
			message := fmt.Sprintf("%s leads back to the entry through %d others", relation, len(way)-1)
			switch len(way) {
			case 1:
				message = relation + " links to the entry itself"
			case 2:
				message = relation + " leads back to the entry through another one"
			}
			c.add(Cycle, e, line, edit(e)+" and remove the link, or remove one of the others", message, others...)
		}
	}
}

// maxOthers limits the names of a finding.
const maxOthers = 20

// A pair is two entries, the lower ID first.
type pair struct{ a, b uint64 }

func pairOf(a, b uint64) pair { return pair{min(a, b), max(a, b)} }

func edit(e crmem.Entry) string { return "run crabmem edit " + arg(e.Name) }

func forget(e crmem.Entry) string {
	if e.Kind == crmem.Archive {
		return "run crabmem forget --archive " + arg(e.Name)
	}
	return "run crabmem forget " + arg(e.Name)
}

// arg returns a name as an argument of a command in a POSIX shell.
func arg(name string) string {
	text := name
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:@+,", r)
	}) {
		text = "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	if strings.HasPrefix(name, "-") {
		text = "-- " + text
	}
	return text
}

// unreadAge is the least age of an entry that Unread returns.
const unreadAge = 30 * 24 * time.Hour

// Unread returns the entries of at least 30 days that no counted read returned (see
// [crmem.Store.Usage]), ascending by ID. counted reports whether any read of the
// store's entries was counted.
func Unread(s *crmem.Store, now time.Time) (list []Finding, counted bool) {
	c := &linter{list: []Finding{}}
	for e := range s.All() {
		if reads, _ := s.Usage(e.ID); reads > 0 {
			counted = true
		} else if age := now.Sub(time.Unix(int64(e.CreatedAt), 0)); age >= unreadAge {
			c.add(UnreadEntry, e, 0, "run crabmem show "+arg(e.Name)+", and "+forget(e)+" if it is not needed",
				fmt.Sprintf("no search found it in its %d days", age/(24*time.Hour)))
		}
	}
	sort.Slice(c.list, func(i, j int) bool { return c.list[i].ID < c.list[j].ID })
	if !counted {
		return nil, false
	}
	return c.list, true
}
