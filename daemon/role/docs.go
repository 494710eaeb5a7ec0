package role

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/bm25/clip"
	"crabmem/daemon/display"
	"crabmem/daemon/tool"
)

// A Page is a page of the manual. Its text's first line describes it.
type Page struct{ ID, Text string }

// Limits of the tool docs.
const (
	foundPages   = 20
	defaultDocs  = 200 // lines
	maxDocs      = 400
	maxQuery     = 1 << 10  // bytes
	maxDocsBytes = 15 << 10 // of a page's lines: a larger result goes to a file
)

type docsArgs struct {
	Action string `json:"action" jsonschema:"list or read"`
	Query  string `json:"query,omitempty" jsonschema:"of list: words that the pages contain"`
	ID     string `json:"id,omitempty" jsonschema:"of read: a page, as list prints it"`
	Start  int    `json:"start,omitempty" jsonschema:"of read: the first line; default: 1"`
	Lines  int    `json:"lines,omitempty" jsonschema:"of read: at most 400; default: 200"`
}

type inspectArgs struct {
	Section string `json:"section,omitempty" jsonschema:"a table of config.toml, such as roles; default: all"`
}

func (r *Roles) inspect(_ context.Context, _ tool.Call, args inspectArgs) (string, error) {
	return r.o.Config(args.Section)
}

func (r *Roles) docs(_ context.Context, _ tool.Call, args docsArgs) (string, error) {
	pages := r.o.Docs()
	switch args.Action {
	case "list":
		return listPages(pages, args.Query)
	case "read":
		i := slices.IndexFunc(pages, func(p Page) bool { return p.ID == args.ID })
		if i < 0 {
			return "", errors.New("no such page: list prints the pages")
		}
		return readPage(&pages[i], cmp.Or(args.Start, 1), cmp.Or(args.Lines, defaultDocs))
	}
	return "", fmt.Errorf("no such action: %s: want list or read", display.Short(display.OneLine(args.Action), 20))
}

// listPages lists the pages, or those that match a query, the best first.
func listPages(pages []Page, query string) (string, error) {
	if len(query) > maxQuery {
		return "", fmt.Errorf("query has %d bytes, want at most %d", len(query), maxQuery)
	}
	list := pages
	if strings.TrimSpace(query) != "" {
		x := bm25.New(analysis.Standard)
		for i, p := range pages {
			x.Add(bm25.Doc{ID: uint64(i), Fields: []string{p.ID + "\n" + p.Text}})
		}
		list = nil
		for _, h := range x.Search(bm25.Query{Text: query, Limit: foundPages}).Hits {
			list = append(list, pages[h.ID])
		}
	}
	lines := []string{display.Plural(len(list), "page", "pages")}
	for _, p := range list {
		first, _, _ := strings.Cut(p.Text, "\n")
		lines = append(lines, p.ID+": "+first)
	}
	return strings.Join(lines, "\n"), nil
}

// readPage returns lines of a page, each with its number.
func readPage(p *Page, start, count int) (string, error) {
	lines := strings.Split(strings.TrimRight(p.Text, "\n"), "\n")
	if start < 1 || start > len(lines) || count < 1 || count > maxDocs {
		return "", fmt.Errorf("start: want 1 to %d; lines: want 1 to %d", len(lines), maxDocs)
	}
	end := min(start-1+count, len(lines))
	var b strings.Builder
	fmt.Fprintf(&b, "lines %d to %d of %d\n", start, end, len(lines))
	for i, line := range lines[start-1 : end] {
		fmt.Fprintf(&b, "%d %s\n", start+i, line)
	}
	return clip.Bytes(b.String(), maxDocsBytes), nil
}
