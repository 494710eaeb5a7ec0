package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"crabmem/cmd/crabmem/internal/importer"
	"crabmem/crmem/vfs"
	"crabmem/daemon/display"
	"crabmem/daemon/secret/scan"
	"crabmem/sessionlog"
)

// importCounts contains the numbers of imported sessions or entries, by result.
type importCounts struct{ Added, Replaced, Skipped, Kept int }

func (n importCounts) any() bool { return n != importCounts{} }

// sessionCounts returns the results of sessions.
func (a *imported) sessionCounts() (n importCounts) {
	for i := range a.Sessions {
		switch a.Sessions[i].Outcome {
		case outcomeImported:
			n.Added++
		case outcomeUpdated:
			n.Replaced++
		case outcomeUnchanged:
			n.Skipped++
		default:
			n.Kept++
		}
	}
	return n
}

// entryCounts returns the results of entries.
func (a *imported) entryCounts() importCounts {
	s := a.sessionCounts()
	return importCounts{a.Added - s.Added, a.Replaced - s.Replaced, a.Skipped - s.Skipped, a.Kept - s.Kept}
}

// reportImport prints the result of an import for a person. It prints only the
// warnings that the last import of the source did not print, and one line if the
// source is unchanged and no warning is new.
func (c *app) reportImport(in *importer.Source, a *imported) {
	sessions, entries := a.sessionCounts(), a.entryCounts()
	chats := sessions.any()
	warnings := slices.Concat(a.warnings, omissions(a.LeftOut), a.Manual)
	fresh := c.newWarnings(chats, in.Path, warnings)
	again := sameWarnings(len(warnings) - len(fresh))
	unchanged := a.Added+a.Replaced == 0 && a.Skipped > 0 && entries.Kept == 0
	if unchanged && in.Kind != importer.Crabmem && len(fresh) == 0 {
		var what []string
		if sessions.Skipped > 0 {
			what = append(what, display.Plural(sessions.Skipped, "session", "sessions"))
		}
		if entries.Skipped > 0 {
			what = append(what, display.Plural(entries.Skipped, "entry", "entries"))
		}
		c.Say("%s: %s, %s unchanged%s", display.Printable(inputName(in.Path)), a.From, strings.Join(what, " and "), again)
		return
	}
	a.announce()
	c.warnAll(fresh)
	if !a.DryRun {
		c.recordWarnings(chats, in.Path, warnings)
	}
	verb := onDry(a.DryRun, "would import", "imported")
	var lines []string
	if entries.any() || !chats && !importer.IsChats(in.Kind) {
		lines = append(lines, fmt.Sprintf("%s %s, replaced %d, skipped %d unchanged, kept %d different", verb, display.Plural(entries.Added, "entry", "entries"),
			entries.Replaced, entries.Skipped, entries.Kept))
	}
	if chats || len(lines) == 0 {
		lines = append(lines, fmt.Sprintf("%s %s, updated %d, unchanged %d, skipped %d", verb, display.Plural(sessions.Added, "session", "sessions"),
			sessions.Replaced, sessions.Skipped, sessions.Kept))
	}
	c.Say("%s%s", strings.Join(lines, "\n"), again)
}

// sameWarnings returns the end of a line that reports n warnings of the last import,
// which are not printed again.
func sameWarnings(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; %s not repeated (--json lists them)", display.Plural(n, "warning", "warnings"))
}

func (c *app) warnAll(warnings []string) {
	for _, w := range warnings {
		c.Warn(w)
	}
}

// omittedStart begins the line of an omission.
const omittedStart = "omitted or changed: "

// omissions returns a line for each reason of an omission.
func omissions(left []importer.Left) []string {
	var lines []string
	for i := range left {
		l := &left[i]
		where := strings.Join(l.Where, ", ")
		if len(l.Where) > 0 && len(l.Where) < l.Count {
			where += ", …"
		}
		if where != "" {
			where = ": " + where
		}
		lines = append(lines, fmt.Sprintf("%s%s (%s)%s", omittedStart, l.Reason, display.Plural(l.Count, "time", "times"), where))
	}
	return lines
}

// printedWarnings is the content of imports.json: for each source, the digests of the
// warnings of the last import. If the file is missing, the next import prints all
// warnings.
type printedWarnings struct {
	Version int                 `json:"version"`
	Sources map[string][]string `json:"sources"`
}

// Limits of imports.json. A file over a limit is replaced; warnings over the limit
// of a source are printed again.
const (
	maxWarnedSources = 1000
	maxWarnedBytes   = 1 << 20
	maxWarned        = 5000
)

// warnedFile returns the path of imports.json: next to the store, or in the home
// for imports of sessions.
func (c *app) warnedFile(chats bool) string {
	path := c.storePath()
	if chats {
		path = c.sessionsPath()
	}
	return filepath.Join(filepath.Dir(path), "imports.json")
}

func (c *app) printedWarnings(file string) printedWarnings {
	var p printedWarnings
	b, err := vfs.ReadFile(c.fs, file, maxWarnedBytes)
	if err != nil || json.Unmarshal(b, &p) != nil || p.Version != 1 || p.Sources == nil || len(p.Sources) >= maxWarnedSources {
		return printedWarnings{Version: 1, Sources: make(map[string][]string)}
	}
	return p
}

// newWarnings returns the warnings that the last import of a source did not print.
func (c *app) newWarnings(chats bool, source string, warnings []string) []string {
	printed := make(map[string]bool)
	for _, d := range c.printedWarnings(c.warnedFile(chats)).Sources[warnedSource(source)] {
		printed[d] = true
	}
	var fresh []string
	for _, w := range warnings {
		if !printed[digestOf(w)] {
			fresh = append(fresh, w)
		}
	}
	return fresh
}

// recordWarnings records the warnings of an import. It ignores errors: the next
// import then prints the warnings again.
func (c *app) recordWarnings(chats bool, source string, warnings []string) {
	file := c.warnedFile(chats)
	if len(warnings) == 0 {
		return
	}
	var digests []string
	for _, w := range warnings[:min(len(warnings), maxWarned)] {
		digests = append(digests, digestOf(w))
	}
	p := c.printedWarnings(file)
	p.Sources[warnedSource(source)] = digests
	_ = vfs.Replace(c.fs, file, 0o600, func(w io.Writer) error { return json.NewEncoder(w).Encode(p) })
}

func warnedSource(source string) string {
	if source != "-" {
		if abs, err := filepath.Abs(source); err == nil {
			source = abs
		}
	}
	return digestOf(source)
}

func digestOf(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:8])
}

// redactItems applies the setting [memory] secrets to the title, the messages, and the
// summaries of an imported conversation, as to those that the daemon records. It
// returns the number of texts that it changed.
func (c *app) redactItems(title *string, items []sessionlog.Item) (n int, err error) {
	policy := sync.OnceValues(c.secretsPolicy)
	record := func(text *string) {
		if err != nil || len(scan.Find(*text)) == 0 {
			return
		}
		var p scan.Policy
		if p, err = policy(); err != nil {
			return
		}
		if kept, _ := p.Record(*text, nil); kept != *text {
			*text = kept
			n++
		}
	}
	record(title)
	for i := range items {
		m := &items[i].Message
		record(&items[i].Summary)
		record(&m.Content)
		record(&m.ReasoningContent)
		for j := range m.ToolCalls {
			record(&m.ToolCalls[j].Function.Arguments)
		}
	}
	return n, err
}

// redactedSecret is the reason that a report of an import lists for a redacted text.
const redactedSecret = "secret, redacted"
