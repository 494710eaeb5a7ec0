package mcpserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/sessionlog/search"
)

// textOf returns the text of a response for a model. out has the fields of shown and those
// that clients do not have.
func textOf(in, out, shown any) (string, error) {
	switch out := out.(type) {
	case *op.EntriesFound:
		return foundText(out), nil
	case *op.EntryPart:
		return partText(out), nil
	case *op.NamePage:
		return namesText(out), nil
	case *op.EntryHistory:
		return historyText(out, in.(*op.HistoryQuery).Change), nil
	case *op.Written:
		return savedText(out, in), nil
	case *op.Removed:
		return "forgot " + display.ShownName(out.Forgot) + "\nto undo this, call restore with the name", nil
	case *op.ContextText:
		return out.Text, nil
	case *op.MessagesFound:
		return messagesText(out), nil
	}
	return plainText(shown)
}

// plainText returns the text of a response of another type: its JSON.
func plainText(v any) (string, error) {
	b, err := json.Marshal(v)
	if err == nil && len(b) > display.MaxShownText {
		err = &errtable.Error{Kind: "invalid", Message: "the response has " + display.Size(int64(len(b))) + ", more than " + display.Size(display.MaxShownText),
			Fix: "ask for a part of it"}
	}
	return display.Fence(string(b)), err
}

// withAliases appends the aliases to the description of an entry.
func withAliases(text string, aliases []string) string {
	if len(aliases) == 0 {
		return text
	}
	return text + ", also " + display.Printable(strings.Join(aliases, ", "))
}

// withData appends data of the store to the first line of a text.
func withData(head, data string) string {
	if data == "" {
		return head
	}
	return head + "\n" + display.Fence(data)
}

// foundHead describes the result of a search.
func foundHead(hits, total, searched, tokens int, one, many string) string {
	return fmt.Sprintf("%d of %s, %s searched, %s", hits, display.Plural(total, "match", "matches"),
		display.Plural(searched, one, many), display.Plural(tokens, "token", "tokens"))
}

func foundText(out *op.EntriesFound) string {
	var b strings.Builder
	for _, c := range out.Corrections {
		b.WriteString("no entry has this word; searched for these instead: " + display.Printable(c) + "\n")
	}
	for _, h := range out.Hits {
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		if m := h.Message; m != nil {
			fmt.Fprintf(&b, "%s  (session %s, line %d, %s)\n%s", display.ShownName(cmp.Or(m.Title, m.Session)), m.Session, m.Line, display.Printable(m.Role), indented(h.Text))
			continue
		}
		b.WriteString(withAliases(display.ShownName(h.Name)+"  ("+h.Kind.String()+", "+h.CreatedAt.Day(time.UTC), h.Aliases))
		if !h.Whole {
			b.WriteString(", in part")
		}
		for _, note := range h.Notes {
			b.WriteString(", " + display.Printable(note))
		}
		b.WriteString(")\n" + indented(h.Text))
	}
	head := foundHead(len(out.Hits), out.Total, out.Searched, out.Tokens, "entry", "entries")
	if out.LeftOut > 0 {
		head += fmt.Sprintf(", %s omitted: raise budget_tokens", display.Plural(out.LeftOut, "match", "matches"))
	}
	if out.Lacks != "" {
		head += "; " + display.OneLine(out.Lacks)
	}
	return withData(head, b.String())
}

func partText(out *op.EntryPart) string {
	head := fmt.Sprintf("%s, %s %d, %s, %s", display.ShownName(out.Name), out.Kind, out.ID, out.CreatedAt.Day(time.UTC), display.Size(int64(out.Bytes)))
	text := display.Fence(withAliases(head, out.Aliases) + "\n\n" + *out.Content)
	if out.Next > 0 {
		text += fmt.Sprintf("\nmore text: call again with offset %d", out.Next)
	}
	return text
}

func namesText(out *op.NamePage) string {
	var b strings.Builder
	for _, e := range out.Items {
		head := fmt.Sprintf("%s  (%s, %s, %s", display.ShownName(e.Name), e.Kind, e.CreatedAt.Day(time.UTC), display.Size(int64(e.Bytes)))
		b.WriteString(withAliases(head, e.Aliases) + ")\n")
	}
	text := withData(fmt.Sprintf("%d of %s", len(out.Items), display.Plural(out.Total, "entry", "entries")), b.String())
	if out.Next != "" {
		text += "\nmore entries: call again with cursor " + out.Next
	}
	return text
}

func historyText(out *op.EntryHistory, version uint64) string {
	var b strings.Builder
	for _, v := range out.Changes {
		at := "-"
		if !v.Time.IsZero() {
			at = v.Time.Format(time.RFC3339)
		}
		fmt.Fprintf(&b, "%d  %s  %s  %s, %s", v.Change, at, v.Type, display.ShownName(v.Name), display.Size(int64(v.Bytes)))
		if who := strings.TrimSpace(v.By.Agent + " " + v.By.Client); who != "" {
			b.WriteString(", by " + display.Printable(who))
		}
		if !v.Redacted.IsZero() {
			b.WriteString(", redacted")
		}
		b.WriteString("\n")
	}
	if out.Content != nil {
		fmt.Fprintf(&b, "\ntext of version %d:\n%s\n", version, *out.Content)
	}
	head := fmt.Sprintf("%d of %s", len(out.Changes), display.Plural(out.Total, "version", "versions"))
	if !out.Whole {
		head += "; the text is longer, and only the beginning follows"
	}
	if out.Damaged != "" {
		head += "; a part of the history is damaged"
	}
	return withData(head, b.String())
}

func savedText(out *op.Written, in any) string {
	text, size := "replaced the note ", int64(out.Bytes)
	switch in := in.(type) {
	case *op.NoteArgs:
		size = int64(len(in.Content))
		if out.Created {
			text = "remembered the new note "
		}
	case *op.Restoration:
		text = "restored the note "
	default:
		text = "changed the note "
	}
	text += display.ShownName(out.Name) + ", " + display.Size(size)
	if len(out.Similar) > 0 {
		text += "\nthese entries have similar names or texts: if one covers the same subject, keep only one of the two; if the new note replaces one, remember it again with supersedes\n" + display.FenceNames(out.Similar)
	}
	return text
}

func messagesText(out *op.MessagesFound) string {
	var b strings.Builder
	for i := range out.Hits {
		if i > 0 {
			b.WriteString("\n")
		}
		messageText(&b, &out.Hits[i])
	}
	head := foundHead(len(out.Hits), out.Total, out.Searched, out.Tokens, "text", "texts")
	if out.LeftOut > 0 {
		head += fmt.Sprintf(", %d omitted: raise budget_tokens", out.LeftOut)
	}
	if out.Lacks != "" {
		head += "; " + out.Lacks
	}
	return withData(head, b.String())
}

func messageText(b *strings.Builder, h *op.MessageFound) {
	fmt.Fprintf(b, "%s, %s, line %d\n", display.SessionLabel(h.Session, h.Title), display.Label(h.Role), h.Line)
	line := func(mark, role, text string) {
		fmt.Fprintf(b, "  %s %s: %s\n", mark, display.Label(role), display.Printable(display.OneLine(text)))
	}
	after := slices.IndexFunc(h.Window, func(w search.Windowed) bool { return w.Line > h.Line })
	if after < 0 {
		after = len(h.Window)
	}
	for _, w := range h.Window[:after] {
		line(" ", w.Role, w.Text)
	}
	line(">", h.Role, h.Text)
	for _, w := range h.Window[after:] {
		line(" ", w.Role, w.Text)
	}
}
