package chat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/agent"
	"crabmem/daemon/display"
)

// dialog asks the user the questions of an agent, one after the other.
type dialog struct {
	questions []agent.Question
	answers   []any // a string, or a []string if the question permits several
}

// NoUserReply is the reply if no user can answer.
const NoUserReply = "No user is connected. Decide yourself and report the decision. If you must not decide, report the question."

// more reports whether a question has no answer yet.
func (d *dialog) more() bool { return len(d.answers) < len(d.questions) }

// prompt returns the next question and its options, on several lines.
func (d *dialog) prompt() string {
	q := d.questions[len(d.answers)]
	var b strings.Builder
	if len(d.questions) > 1 {
		fmt.Fprintf(&b, "%d/%d ", len(d.answers)+1, len(d.questions))
	}
	if q.Header != "" {
		b.WriteString(display.Printable(q.Header) + ": ")
	}
	for i, l := range strings.Split(strings.TrimSpace(q.Question), "\n") {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(cli.PrintableLine(l))
	}
	for i, o := range q.Options {
		fmt.Fprintf(&b, "\n  %d  %s", i+1, display.Printable(o.Label))
		if o.Description != "" {
			b.WriteString(" - " + display.Printable(o.Description))
		}
	}
	return b.String() + "\n" + d.hint()
}

func (d *dialog) hint() string {
	q := d.questions[len(d.answers)]
	switch {
	case len(q.Options) == 0:
		return "(free text)"
	case q.Header == agent.RunCommand:
		return "(y, n, or a number)"
	case q.MultiSelect:
		return "(numbers separated by commas, or free text)"
	}
	return "(a number, or free text)"
}

// answer adds the answer in line to the dialog. Numbers and labels select
// options; other text is the answer itself. It returns false if the line is
// empty or contains the number of no option.
func (d *dialog) answer(line string) bool {
	q := d.questions[len(d.answers)]
	line = strings.TrimSpace(line)
	if line == "" {
		return false
	}
	if !q.MultiSelect {
		label, ok := option(q, line)
		if !ok {
			return false
		}
		d.answers = append(d.answers, label)
		return true
	}
	var chosen []string
	for part := range strings.SplitSeq(line, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		label, ok := option(q, part)
		if !ok {
			return false
		}
		if !slices.Contains(chosen, label) {
			chosen = append(chosen, label)
		}
	}
	if len(chosen) == 0 {
		return false
	}
	d.answers = append(d.answers, chosen)
	return true
}

// option returns the label of the option that typed selects by its number or
// label, or typed itself. It returns false for a number of no option, unless the
// question has no options.
func option(q agent.Question, typed string) (string, bool) {
	if n, err := strconv.Atoi(typed); err == nil && len(q.Options) > 0 {
		if n < 1 || n > len(q.Options) {
			return "", false
		}
		return q.Options[n-1].Label, true
	}
	for _, o := range q.Options {
		if strings.EqualFold(o.Label, typed) {
			return o.Label, true
		}
	}
	return typed, true
}

// reply returns a JSON object that maps the questions to the answers, in order.
func (d *dialog) reply() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, q := range d.questions {
		if i > 0 {
			b.WriteByte(',')
		}
		for j, v := range []any{q.Question, d.answers[i]} {
			text, err := display.JSON(v)
			if err != nil {
				text = []byte(`""`)
			}
			if j > 0 {
				b.WriteByte(':')
			}
			b.Write(text)
		}
	}
	b.WriteByte('}')
	if !json.Valid([]byte(b.String())) {
		return "{}"
	}
	return b.String()
}

// question shows the next question of the dialog.
func (s *screen) question() {
	for l := range strings.SplitSeq(s.dialog.prompt(), "\n") {
		s.line(l)
	}
}

// answer adds an answer to the dialog, and sends all answers after the last
// question.
func (s *screen) answer(text string) {
	if !s.dialog.answer(text) {
		s.dimLine("invalid choice")
		s.editor.Reset()
		return
	}
	s.line(s.c.Bold("> " + display.Printable(display.OneLine(text))))
	s.editor.Reset()
	if s.dialog.more() {
		s.question()
		return
	}
	s.asked.Reply(s.reply.Session, s.dialog.reply())
	s.doing = "waiting for the model"
	s.endDialog()
}

func (s *screen) endDialog() {
	s.dialog = nil
	s.editor.Set(s.stash)
	s.stash = ""
}
