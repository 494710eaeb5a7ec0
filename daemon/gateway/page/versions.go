package page

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"

	"github.com/rogpeppe/go-internal/diff"
)

// maxCompared limits a text that is compared, in bytes.
const maxCompared = 512 << 10

// diffLine is a line of a comparison.
type diffLine struct {
	Class, Mark, Text string
}

// compare returns the lines that differ, with those around them.
func compare(before, after string) (lines []diffLine, long bool) {
	if len(before) > maxCompared || len(after) > maxCompared {
		return nil, true
	}
	text := diff.Diff("before", []byte(before), "after", []byte(after))
	_, text, _ = bytes.Cut(text, []byte("\n+++ after\n"))
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "@@"):
			lines = append(lines, diffLine{"place", "", line})
		case strings.HasPrefix(line, "+"):
			lines = append(lines, diffLine{"added", "+", line[1:]})
		case strings.HasPrefix(line, "-"):
			lines = append(lines, diffLine{"removed", "−", line[1:]})
		default:
			lines = append(lines, diffLine{"same", "", strings.TrimPrefix(line, " ")})
		}
	}
	return lines, false
}

type historyView struct {
	ID       uint64
	Name     string
	Versions []op.Change
	Older    string // place of the next part; empty: none
	Damaged  string
}

func (v *visit) history() error {
	id, err := v.id("id")
	if err != nil {
		return err
	}
	var until uint64
	if text := v.r.URL.Query().Get("until"); text != "" {
		if until, err = strconv.ParseUint(text, 10, 64); err != nil {
			return notFound("no version "+display.Quoted(text), "")
		}
	}
	all, err := op.ListChanges.Do(v.r.Context(), v.store(), op.ChangeFilter{ID: id, Until: until, Limit: pageSize})
	if err != nil {
		return err
	}
	list := all.Changes
	out := historyView{ID: id, Versions: list, Older: all.Next, Damaged: display.Printable(all.Damaged)}
	if len(list) > 0 {
		out.Name = list[0].Name
	} else {
		e, err := v.entry()
		if err != nil {
			return err
		}
		out.Name = e.Name
	}
	return v.show("history.html", http.StatusOK, view{Title: "History of " + display.Label(out.Name), Nav: "memories", Data: out})
}

type versionView struct {
	op.Change
	Now    *crmem.Entry // nil: it was removed
	ETag   string       // of the present entry
	Lines  []diffLine
	Long   bool
	Reason string // why the version cannot be restored; empty: it can
}

// versionOf returns the version in the path, without its difference to the present entry.
func (v *visit) versionOf() (out versionView, err error) {
	id, err := v.id("id")
	if err != nil {
		return out, err
	}
	seq, err := v.id("version")
	if err != nil {
		return out, err
	}
	list, err := op.ListChanges.Do(v.r.Context(), v.store(), op.ChangeFilter{ID: id, Seq: seq})
	if errors.Is(err, crmem.ErrNotFound) || err == nil && len(list.Changes) == 0 {
		return out, notFound(fmt.Sprintf("entry %d has no version %d", id, seq), "choose a version of its history")
	}
	if err != nil {
		return out, err
	}
	out.Change = list.Changes[0]
	now, err := v.entry()
	if e, ok := errors.AsType[*errtable.Error](err); ok && e.HTTP == http.StatusNotFound {
		now, err = nil, nil
	}
	if err != nil {
		return out, err
	}
	if out.Now = now; now != nil {
		out.ETag = op.ETag(now)
	}
	switch {
	case !out.Redacted.IsZero():
		out.Reason = "The text of this version was redacted."
	case out.Kind != crmem.Note:
		out.Reason = "An archive of a conversation does not change here."
	case now != nil && now.Content == *out.Content && slices.Equal(now.Aliases, out.Aliases):
		out.Reason = "This is the present text."
	}
	return out, nil
}

func (v *visit) version() error {
	out, err := v.versionOf()
	if err != nil {
		return err
	}
	if out.Now != nil && out.Reason == "" {
		out.Lines, out.Long = compare(out.Now.Content, *out.Content)
	}
	return v.show("version.html", http.StatusOK, view{Title: "Version of " + display.Label(out.Name), Nav: "memories", Data: out})
}

// restore replaces content and aliases by those of a version. It adds a removed note again,
// with a new ID.
func (v *visit) restore() error {
	out, err := v.versionOf()
	if err != nil {
		return err
	}
	changed := &errtable.Error{HTTP: http.StatusConflict, Message: "the entry has changed", Fix: "compare the versions again"}
	if out.Reason != "" || v.r.PostForm.Get("etag") != out.ETag {
		return changed
	}
	old := out.Entry()
	var list []crmem.Entry
	if out.Now == nil {
		list, err = op.ApplyOps(v.r.Context(), v.exactStore(), crmem.Restore{Entry: crmem.Entry{Name: old.Name, CreatedAt: old.CreatedAt, Content: old.Content, Aliases: old.Aliases}})
		if errors.Is(err, crmem.ErrExists) {
			return &errtable.Error{HTTP: http.StatusConflict, Message: "another entry has the name " + display.Quoted(old.Name), Fix: "rename that entry with crabmem rename, then restore this one"}
		}
	} else {
		list, err = op.ApplyOps(v.r.Context(), v.exactStore(), crmem.Unchanged{Entry: *out.Now}, crmem.Update{Name: out.Now.Name, Content: old.Content, Aliases: old.Aliases})
	}
	if errors.Is(err, crmem.ErrStale) {
		return changed
	}
	if err != nil {
		return err
	}
	return v.see(pathOf(list[0].ID))
}

// Removal reports whether the change removed the entry.
func (v versionView) Removal() bool { return v.Type == crmem.ChangeRemove }
