package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/inspect"
	"crabmem/crmem/vfs"
	"crabmem/daemon/display"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"

	"github.com/spf13/cobra"
)

// Limits of inspect: that of a store, and that of a log.
const (
	maxInspect    = 1 << 30
	maxInspectLog = 4 << 30
	logMagic      = "CRWAL\x00"
)

// inspected is a field of inspect --json.
type inspected struct {
	Offset int64  `json:"offset"`
	Length int    `json:"length"`
	Hex    string `json:"hex"` // of the first bytes
	Field  string `json:"field"`
	Value  string `json:"value"`
}

func inspectCommand(c *app) *cobra.Command {
	var most int
	cmd := &cobra.Command{
		Use:     "inspect [FILE|-]",
		GroupID: groupCare,
		Short:   "print a store, log, or session field by field",
		Long: `Print the offset, hexadecimal bytes, name, and value of each field of a store
file or of a log (memory.db-wal). FORMAT.md defines the names. At the first
invalid field, inspect prints the offset and exits with 5. Without FILE it reads
the store. A torn tail of a log is not an error.

For a session file (*.jsonl), inspect prints a summary and the kind of each
line. It continues after an invalid line, and the error with exit code 5 names
the first one.`,
		Example: `  crabmem inspect
  crabmem inspect "$CRABMEM_DB"
  crabmem inspect --bytes 64 --json`,
		Args: atMost(1, "one FILE (or -)"),
	}
	cmd.Flags().IntVar(&most, "bytes", 16, "print up to `N` bytes of a field, 0 = all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if most < 0 {
			return cli.Usagef("--bytes %d: want 0 or more", most)
		}
		file := c.storePath()
		if len(args) == 1 {
			file = args[0]
		}
		if file != "-" {
			if path, err := c.fs.Resolve(file); err == nil {
				if is, err := c.inspectLines(path, most); is || err != nil {
					return err
				}
			}
		}
		b, err := c.inspectFile(cmd, file)
		if err != nil {
			if missing(err) {
				return &cli.Failure{Code: cli.ExitNotFound, Kind: "no_store", Message: file + " does not exist", Path: file, Remedy: "use the path of a store's file or its log", Err: err}
			}
			return err
		}
		return c.inspect(file, b, most)
	}
	return c.outputs(cmd, of[[]inspected]())
}

// inspectFile reads a file. It follows links, as opening a store does.
func (c *app) inspectFile(cmd *cobra.Command, file string) ([]byte, error) {
	if file == "-" {
		s, err := c.ReadInput(cmd.Context(), maxInspectLog)
		return []byte(s), err
	}
	path, err := c.fs.Resolve(file)
	if err != nil {
		return nil, c.about(file, err)
	}
	f, err := c.fs.Open(path)
	if err != nil {
		return nil, err
	}
	head := make([]byte, len(logMagic))
	n, err := f.ReadAt(head, 0)
	if err == io.EOF {
		err = nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	most := int64(maxInspect)
	if string(head[:n]) == logMagic {
		most = maxInspectLog
	}
	return vfs.ReadFile(c.fs, path, most)
}

// inspectLines prints the lines of a session. is is false if the file is not a
// session.
func (c *app) inspectLines(path string, most int) (is bool, err error) {
	var list []inspected
	is, err = c.inspectSession(path, most, func(f inspected) {
		switch {
		case c.JSON:
			list = append(list, f)
		case 2*f.Length > len(f.Hex) && f.Hex != "":
			c.inspectedField(f.Offset, f.Hex+"…", f.Field, f.Value, most)
		default:
			c.inspectedField(f.Offset, f.Hex, f.Field, f.Value, most)
		}
	})
	if is && err == nil && c.JSON {
		err = c.PrintJSON(list)
	}
	return is, err
}

func (c *app) inspectedField(offset int64, hex, field, value string, most int) {
	fmt.Fprintf(c.Out, "%08x  %-*s  %-14s %s\n", offset, 2*max(8, min(most, 16)), hex, field, display.Printable(value))
}

func (c *app) inspect(file string, b []byte, most int) error {
	list := []inspected{}
	var broken error
	for f, err := range inspect.Fields(b) {
		if err != nil {
			broken = c.about(file, err)
			break
		}
		raw := b[f.Offset : f.Offset+f.Length]
		cut := ""
		if most > 0 && len(raw) > most {
			raw, cut = raw[:most], "…"
		}
		if c.JSON {
			list = append(list, inspected{f.Offset, int(f.Length), hex.EncodeToString(raw), f.Name, f.Value})
			continue
		}
		c.inspectedField(f.Offset, hex.EncodeToString(raw)+cut, f.Name, f.Value, most)
	}
	if c.JSON && broken == nil {
		return c.PrintJSON(list)
	}
	return broken
}

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
		display.Plural(int(c.Lines), "line", "lines"), display.Plural(c.Messages, "message", "messages"), display.Plural(c.Markers, "marker", "markers"),
		display.Plural(c.MetaRecords, "meta record", "meta records"), fmt.Sprintf("%d unknown", c.Unknown),
		fmt.Sprintf("%d damaged", c.Damaged), display.Plural(int(c.Torn), "byte torn", "bytes torn"),
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
	case record.KindMessage, record.KindCopy:
		value = fmt.Sprintf("%q, %s", l.Message.Role, display.Plural(len(l.Message.Content), "byte", "bytes"))
		if n := len(l.Message.ToolCalls); n > 0 {
			value += ", " + display.Plural(n, "tool call", "tool calls")
		}
	case record.KindMarker:
		field, value = "marker", "summary of "+display.Plural(len(l.Summary), "byte", "bytes")
	case record.KindMetaRecord:
		value = fmt.Sprintf("title %q, uptime %d s", l.Meta.Title, l.Meta.UptimeSecs)
	case record.KindUnknown:
		value = "of another program"
		if t, ok := record.ParseTurn(l.Raw); ok && t.Kind != "" {
			field, value = "turn", "failed: "+t.Kind
		} else if ok {
			field, value = "turn", "streamed text of "+display.Plural(len(t.Text), "byte", "bytes")
		}
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
