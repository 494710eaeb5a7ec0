package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// inspectSession calls show with a summary of a session file, then with each
// line as a field. is is false if the file is not a session. An error may be
// that of the first bad line, after all lines.
func (c *app) inspectSession(path string, most int, show func(inspected)) (is bool, err error) {
	if !strings.HasSuffix(path, ".jsonl") {
		return false, nil
	}
	d, err := sessionlog.OpenDir(filepath.Dir(path), &sessionlog.Options{FS: c.fs})
	if err != nil {
		return false, err
	}
	s, err := d.Read(filepath.Base(path))
	if errors.Is(err, sessionlog.ErrNotFound) {
		return false, nil // no name of a session
	}
	if err != nil {
		return false, err
	}
	defer s.Close()
	check, err := s.Check()
	if err != nil || !check.Identified && check.Messages+check.Markers+check.MetaRecords == 0 {
		return false, err
	}
	show(inspected{Length: int(s.Size), Field: "session", Value: sessionSummary(s.ID, check)})
	for l, err := range s.Lines(0) {
		if err != nil {
			return true, err
		}
		raw := l.Raw
		if most > 0 && len(raw) > most {
			raw = raw[:most]
		}
		f := inspected{Offset: l.Offset, Length: int(l.Size), Hex: fmt.Sprintf("%x", raw)}
		f.Field, f.Value = inspectedLine(&l)
		show(f)
	}
	if check.Damaged > 0 {
		first := check.Damage[0]
		err = &record.FormatError{Path: s.Path, Line: first.Line, Offset: first.Offset, Msg: first.Msg}
	}
	return true, err
}

// sessionSummary describes the content of a session file.
func sessionSummary(id string, c *sessionlog.Check) string {
	parts := []string{
		cli.Plural(int(c.Lines), "line", "lines"), cli.Plural(c.Messages, "message", "messages"), cli.Plural(c.Markers, "marker", "markers"),
		cli.Plural(c.MetaRecords, "meta record", "meta records"), fmt.Sprintf("%d unknown", c.Unknown),
		fmt.Sprintf("%d damaged", c.Damaged), cli.Plural(int(c.Torn), "byte torn", "bytes torn"),
	}
	return fmt.Sprintf("%s: %s", id, strings.Join(parts, ", "))
}

// inspectedLine returns the kind of a line and its content.
func inspectedLine(l *sessionlog.Line) (field, value string) {
	field = l.Kind.String()
	switch l.Kind {
	case record.KindMeta:
		value = fmt.Sprintf("agent %q, sender %q, created %q, title %q", l.Meta.Agent, l.Meta.CreatedBy, l.Meta.CreatedAt, l.Meta.Title)
		if l.Meta.Source != "" {
			value += fmt.Sprintf(", source %q", l.Meta.Source)
		}
	case record.KindMessage:
		value = fmt.Sprintf("%q, %s", l.Message.Role, cli.Plural(len(l.Message.Content), "byte", "bytes"))
		if n := len(l.Message.ToolCalls); n > 0 {
			value += ", " + cli.Plural(n, "tool call", "tool calls")
		}
	case record.KindMarker:
		field, value = "marker", "summary of "+cli.Plural(len(l.Summary), "byte", "bytes")
	case record.KindMetaRecord:
		value = fmt.Sprintf("title %q, uptime %d s", l.Meta.Title, l.Meta.UptimeSecs)
	case record.KindUnknown:
		value = "of another program"
	case record.KindBad:
		value = l.Err.Msg
	}
	if l.Torn && (l.Kind == record.KindBad || l.Kind == record.KindBlank) {
		field = "torn"
	}
	if l.Glued {
		value += ", in the invalid line"
	}
	return field, value
}
