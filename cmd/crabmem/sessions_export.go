package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"unicode"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"

	"github.com/spf13/cobra"
)

func sessionsExportCommand(c *app) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "export ID",
		Short: "write a session to standard output",
		Long: `Write a session to standard output as Markdown. --format jsonl writes the valid
lines of its file, byte for byte, and warns with the number of omitted lines.

In Markdown, each message becomes a block quote of its Markdown text, in which
HTML becomes plain text. Tool calls and their results become code blocks.
--json selects --format jsonl; with --format markdown it prints the Markdown in
one object.`,
		Example: `  crabmem sessions export crab_user_1 > conversation.md
  crabmem sessions export crab_user_1 --format jsonl | head -n 1`,
		Args:              exactly(1, "ID"),
		ValidArgsFunction: c.completeSessions(1, false),
	}
	cmd.Flags().StringVar(&format, "format", "markdown", "write this `format`: markdown (or md) or jsonl")
	completeWords(cmd, "format", "markdown", "jsonl")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if c.JSON && !cmd.Flags().Changed("format") {
			format = "jsonl"
		}
		if format == "md" {
			format = "markdown"
		}
		if format != "markdown" && format != "jsonl" {
			return cli.Usagef("--format %q: want markdown or jsonl", format)
		}
		return c.readSession(args[0], func(s *sessionlog.Session) error {
			switch {
			case format == "jsonl":
				return c.exportLines(cmd.Context(), s)
			case !c.JSON:
				return exportMarkdown(cmd.Context(), c.Out, s, c.Text)
			}
			var b bytes.Buffer
			if err := exportMarkdown(cmd.Context(), &b, s, c.Text); err != nil {
				return err
			}
			return c.PrintJSON(exportedSession{format, s.ID, b.String()})
		})
	}
	return c.outputs(cmd, of[exportedSession](), of[map[string]any]())
}

func (c *app) exportLines(ctx context.Context, s *sessionlog.Session) error {
	left := 0
	for l, err := range s.Lines(0) {
		if err := cmp.Or(err, context.Cause(ctx)); err != nil {
			return err
		}
		if l.Kind == record.KindBad {
			left++
		}
		if l.Kind == record.KindBad || l.Kind == record.KindBlank {
			continue
		}
		c.Out.Write(l.Raw)
		if err := c.Out.WriteByte('\n'); err != nil {
			return err
		}
	}
	if left > 0 {
		c.Warn(fmt.Sprintf("%s: omitted the invalid parts of %s; run crabmem sessions verify %s to list them", s.Path, display.Plural(left, "line", "lines"), errtable.ShellWord(s.ID)))
	}
	return nil
}

// exportMarkdown writes a session as Markdown; text makes the texts in it fit
// for where it goes.
func exportMarkdown(ctx context.Context, w io.Writer, s *sessionlog.Session, text func(string) string) error {
	i, err := s.Info()
	if err != nil {
		return err
	}
	title := i.Meta.Title
	if title == "" {
		title = s.ID
	}
	fmt.Fprintf(w, "# %s\n\n- session: %s\n", markdownInline(title), markdownInline(s.ID))
	for _, f := range [][2]string{
		{"agent", i.Meta.Agent}, {"with", i.Meta.CreatedBy}, {"created", i.Meta.CreatedAt}, {"imported from", i.Meta.Source},
	} {
		if f[1] != "" {
			fmt.Fprintf(w, "- %s: %s\n", f[0], markdownInline(f[1]))
		}
	}
	for l, err := range joinStreamed(s.Lines(0)) {
		err = cmp.Or(err, context.Cause(ctx))
		if err == nil {
			err = markdownLine(w, &l, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// markdownLine writes the content of a line. It omits titles and run times,
// which are at the top.
func markdownLine(w io.Writer, l *sessionlog.Line, text func(string) string) (err error) {
	if d := damageOf(l); d != nil {
		fmt.Fprintf(w, "\n## line %d: %s\n", l.Number, markdownInline("cannot be read: "+d.Message))
	}
	switch l.Kind {
	case record.KindMarker:
		fmt.Fprintf(w, "\n## line %d: compacted\n", l.Number)
		err = markdownQuote(w, text(l.Summary))
	case record.KindUnknown:
		if t, ok := record.ParseTurn(l.Raw); ok {
			if t.Kind != "" {
				fmt.Fprintf(w, "\n## line %d: %s, %s\n", l.Number, turnEnd(&t), markdownInline(t.Kind))
				return markdownFence(w, "text", text(t.Error))
			}
			fmt.Fprintf(w, "\n## line %d: assistant, partial\n", l.Number)
			return markdownFence(w, "markdown", text(t.Text))
		}
		fmt.Fprintf(w, "\n## line %d: unknown record\n", l.Number)
		err = markdownFence(w, "json", text(string(l.Raw)))
	case record.KindMessage:
		m := &l.Message
		of := ""
		if m.ToolCallID != "" {
			of = ", result of " + markdownInline(m.ToolCallID)
		}
		fmt.Fprintf(w, "\n## line %d: %s%s\n", l.Number, markdownInline(m.Role), of)
		if m.ReasoningContent != "" {
			io.WriteString(w, "\nThinking:\n")
			err = markdownQuote(w, text(m.ReasoningContent))
			if m.Content != "" {
				io.WriteString(w, "\nText:\n")
			}
		}
		if m.Content != "" && m.Role == record.RoleTool {
			err = markdownFence(w, "text", text(m.Content))
		} else if m.Content != "" {
			err = markdownQuote(w, text(m.Content))
		}
		for k := range m.ToolCalls {
			call := &m.ToolCalls[k]
			fmt.Fprintf(w, "\nCalls %s (%s):\n", markdownInline(call.Function.Name), markdownInline(call.ID))
			err = markdownFence(w, "json", text(call.Function.Arguments))
		}
	}
	return err
}

// markdownFence writes a text as a code block with a fence that the text does
// not contain.
func markdownFence(w io.Writer, info, text string) error {
	longest, run := 2, 0
	for i := range len(text) {
		if text[i] != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	end := "\n"
	if text == "" || strings.HasSuffix(text, "\n") {
		end = ""
	}
	for _, part := range []string{"\n", fence, info, "\n", text, end, fence} {
		io.WriteString(w, part) // a buffer keeps its error
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// markdownInline writes a text on one line, with markup escaped.
func markdownInline(s string) string {
	var b strings.Builder
	text := []rune(display.Printable(strings.Join(strings.Fields(s), " ")))
	within := func(i int) bool { // a word, where an underline is a letter
		return i > 0 && i+1 < len(text) && unicode.IsLetter(text[i-1]) && (unicode.IsLetter(text[i+1]) || unicode.IsDigit(text[i+1]))
	}
	for i, r := range text {
		if strings.ContainsRune("\\`*[]<>&#|~$!", r) || r == '_' && !within(i) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// exportedSession is sessions export --format markdown --json.
type exportedSession struct {
	Format string `json:"format" op:"words=markdown"`
	ID     string `json:"session"`
	Text   string `json:"text"`
}

// markdownQuote writes a Markdown text as a block quote, and escapes HTML outside
// code. No content of the text can end the quote early.
func markdownQuote(w io.Writer, text string) error {
	b := []byte("\n")
	fence, open, unsure := "", false, false
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		run := fenceOf(line)
		// An indented fence begins or ends code, or is part of it: what it belongs to decides.
		// The rest of the text may then be outside code.
		unsure = unsure || run == "" && fenceOf(strings.TrimLeft(line, " \t")) != ""
		switch {
		case unsure:
			line = strings.ReplaceAll(line, "<", "&lt;")
		case fence != "":
			if len(run) >= len(fence) && run[0] == fence[0] && strings.TrimRight(line, " \t") == run {
				fence = ""
			}
		case run != "":
			fence, open = run, false
		default:
			if strings.TrimSpace(line) == "" {
				open = false
			}
			line, open = withoutHTML(line, open)
		}
		b = append(b, strings.TrimRight("> "+line, " ")+"\n"...)
	}
	_, err := w.Write(b)
	return err
}

// fenceOf returns the fence that a line begins with, or "".
func fenceOf(line string) string {
	for _, c := range []string{"`", "~"} {
		rest := strings.TrimLeft(line, c)
		if n := len(line) - len(rest); n >= 3 && (c == "~" || !strings.Contains(rest, c)) {
			return line[:n]
		}
	}
	return ""
}

// withoutHTML escapes each "<" of a line that is not in a code span. open is true if
// an earlier line of the paragraph has an unpaired run of backticks. Then, and after
// an unpaired run on this line, withoutHTML escapes every "<".
func withoutHTML(line string, open bool) (escaped string, stillOpen bool) {
	var b strings.Builder
	for rest := line; ; {
		at := strings.IndexByte(rest, '`')
		if at < 0 || open || strings.HasSuffix(rest[:at], `\`) {
			open = open || at >= 0
			b.WriteString(strings.ReplaceAll(rest, "<", "&lt;"))
			break
		}
		b.WriteString(strings.ReplaceAll(rest[:at], "<", "&lt;"))
		rest = rest[at:]
		run := rest[:len(rest)-len(strings.TrimLeft(rest, "`"))]
		end := closing(rest[len(run):], len(run))
		if end < 0 {
			open = true
			continue
		}
		n := len(run) + end
		b.WriteString(rest[:n])
		rest = rest[n:]
	}
	return b.String(), open
}

// closing returns the offset after the first run of exactly n backticks, or -1.
func closing(s string, n int) int {
	for at := 0; ; {
		i := strings.IndexByte(s[at:], '`')
		if i < 0 {
			return -1
		}
		at += i
		run := len(s[at:]) - len(strings.TrimLeft(s[at:], "`"))
		at += run
		if run == n {
			return at
		}
	}
}
