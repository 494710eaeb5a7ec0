package chat

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
)

// Limits of /recall.
const (
	shownHits   = 5
	previewSize = 240 // bytes of a hit's text
)

// recall searches the memory and shows the best hits. The agent does not see them.
func (ch *chat) recall(ctx context.Context, query string) error {
	if query == "" {
		return &cli.Failure{Code: cli.ExitUsage, Kind: "usage", Message: "/recall: QUERY is missing", Remedy: "run /recall QUERY, such as /recall how do we deploy?"}
	}
	a, err := op.Recall.Do(ctx, ch.Client, op.Question{Query: query, Limit: shownHits, Weights: true})
	if err != nil {
		return ch.explainStore(err)
	}
	var lines []string
	for _, x := range a.Corrections {
		lines = append(lines, fmt.Sprintf("no entry contains %s: searched for %s instead", display.Quoted(x.Word), strings.Join(x.Words, ", ")))
	}
	for i := range a.Hits {
		h := &a.Hits[i]
		lines = append(lines, fmt.Sprintf("%d  %s  %s %d, %s", i+1, display.Label(h.Name), h.Kind, h.ID, h.CreatedAt.Day(time.UTC)))
		if h.Content != nil {
			lines = append(lines, "   "+display.OneLine(h.Cut(analysis.Standard, previewSize)))
		}
	}
	searched := display.Plural(a.Searched, "entry", "entries") + " searched"
	if len(a.Hits) == 0 {
		lines = append(lines, "nothing found: "+searched)
	} else {
		lines = append(lines, fmt.Sprintf("%d of %s, %s", len(a.Hits), display.Plural(a.Total, "match", "matches"), searched))
	}
	return ch.show(lines)
}

// remember creates or replaces a note.
func (ch *chat) remember(ctx context.Context, arg string) error {
	name, text, ok := splitName(arg)
	if !ok || name == "" || strings.TrimSpace(text) == "" {
		return &cli.Failure{Code: cli.ExitUsage, Kind: "usage", Message: "/remember: NAME or TEXT is missing; nothing was changed",
			Remedy: `run /remember NAME TEXT, or /remember "NAME OF SEVERAL WORDS" TEXT`}
	}
	r, err := op.Remember.Do(ctx, ch.Client, op.Note{Remember: crmem.Remember{Name: name, Content: text, Metadata: &metadata.Edit{}}})
	if err != nil {
		return ch.explainStore(client.OutcomeUnknown(err))
	}
	ch.info(fmt.Sprintf("remembered %s (%s %d, %s)", display.Label(r.Name), r.Kind, r.ID, display.Size(int64(r.Bytes))))
	return nil
}

// splitName splits arg into the name of an entry, which may be in quotes, and a text.
// ok is false if the closing quote is missing, or if white space does not end a name
// without quotes.
func splitName(arg string) (name, text string, ok bool) {
	if rest, quoted := strings.CutPrefix(arg, `"`); quoted {
		name, text, ok = strings.Cut(rest, `"`)
	} else if i := strings.IndexAny(arg, " \t\n"); i >= 0 {
		name, text, ok = arg[:i], arg[i:], true
	}
	return name, strings.TrimSpace(text), ok
}

// noteNames returns the names of notes as arguments of /remember.
func (ch *chat) noteNames(ctx context.Context) (words []string) {
	for e, err := range op.Entries(ctx, ch.Client, op.EntryFilter{Kinds: []crmem.Kind{crmem.Note}}) {
		if err != nil {
			break // no completions after an error
		}
		switch name := e.Name; {
		case strings.Contains(name, `"`):
		case strings.ContainsAny(name, " \t"):
			words = append(words, `"`+name+`"`)
		default:
			words = append(words, name)
		}
	}
	return words
}

// explainStore converts an error of the store or of the connection to an error of the
// command line.
func (ch *chat) explainStore(err error) error {
	if errors.As(err, new(*client.Error)) {
		return err
	}
	return ch.Explain(err)
}
