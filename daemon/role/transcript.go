package role

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"crabmem/daemon/display"
	"crabmem/daemon/tool"
	"crabmem/daemon/trust"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// Limits of a transcript.
const (
	defaultLines    = 50
	maxLines        = 100
	maxLine         = 1 << 10  // bytes of a message
	maxTranscript   = 14 << 10 // bytes of all messages: a larger result goes to a file
	listedSessions  = 50
	maxSessionTitle = 100 // bytes
)

type recallArgs struct {
	Session     string `json:"session,omitempty" jsonschema:"ID; without it and archive: lists your newest conversations"`
	Archive     string `json:"archive,omitempty" jsonschema:"name of the archive of a conversation: the lines that it summarizes"`
	Limit       int    `json:"limit,omitempty" jsonschema:"lines, 1 to 100; default: 50"`
	BeforeLine  int64  `json:"before_line,omitempty" jsonschema:"only lines with a lower number"`
	AfterLine   int64  `json:"after_line,omitempty" jsonschema:"only lines with a higher number"`
	OldestFirst bool   `json:"oldest_first,omitempty" jsonschema:"the first lines instead of the newest"`
}

// errNotYours is the error for a session that does not exist, and for one of others.
var errNotYours = errors.New("not a session of yours")

// channelRecall returns lines of the run's conversation, or of another conversation of the agent
// that the run's identities may see.
func (r *Roles) channelRecall(ctx context.Context, c tool.Call, args recallArgs) (string, error) {
	o, t, err := r.originOf(ctx, c)
	if err != nil {
		return "", err
	}
	rules := r.o.Setup().Config.Origins
	if levelOf(rules, t.Session.CreatedBy, o.Sender) == trust.Untrusted {
		return "", errNotYours
	}
	if args.Limit < 0 || args.Limit > maxLines || args.BeforeLine < 0 || args.AfterLine < 0 {
		return "", fmt.Errorf("limit: want 1 to %d; before_line and after_line: want the number of a line", maxLines)
	}
	mine := func(m *sessionlog.Meta) bool {
		return m.Agent == c.Agent && m.Workspace == c.Workspace && rules.Sees(c.Scope, m.CreatedBy)
	}
	id, number := args.Session, 0
	switch {
	case args.Archive != "":
		if id, number = archiveOf(args.Archive); args.Session != "" || number == 0 {
			return "", errors.New("archive: want the name of the archive of a conversation, and no session")
		}
	case id == "":
		return r.conversations(o.parent, mine)
	}
	s, err := r.o.Work.Sessions.Read(id)
	if err != nil {
		return "", errNotYours
	}
	defer s.Close()
	if s.ID != o.parent && !mine(&s.Meta) {
		return "", errNotYours
	}
	p := page{limit: cmp.Or(args.Limit, defaultLines), after: args.AfterLine, before: args.BeforeLine, oldest: args.OldestFirst}
	if number > 0 {
		all, err := s.Compactions()
		if err != nil || number > len(all) {
			return "", fmt.Errorf("no archive %d of %s", number, display.Label(s.ID))
		}
		p.span(all[number-1].FirstLine-1, all[number-1].LastLine+1)
	}
	return p.read(ctx, s)
}

// archiveOf returns a compaction's session and number by its archive's name: ID-2, or ID-2.3 if the
// name was taken.
func archiveOf(name string) (id string, number int) {
	i := strings.LastIndexByte(name, '-')
	if i < 1 {
		return "", 0
	}
	digits, _, _ := strings.Cut(name[i+1:], ".")
	number, err := strconv.Atoi(digits)
	if err != nil || number < 1 {
		return "", 0
	}
	return name[:i], number
}

// conversations lists the newest sessions.
func (r *Roles) conversations(own string, mine func(*sessionlog.Meta) bool) (string, error) {
	list, err := r.o.Work.Sessions.List()
	if err != nil {
		return "", err
	}
	list = slices.DeleteFunc(list, func(i sessionlog.Info) bool { return i.Err != nil || i.ID != own && !mine(&i.Meta) })
	slices.SortFunc(list, func(a, b sessionlog.Info) int { return b.Modified.Compare(a.Modified) })
	var b strings.Builder
	for _, i := range list[:min(len(list), listedSessions)] {
		fmt.Fprintf(&b, "%s, %s, %d messages: %s", i.ID, i.Modified.UTC().Format("2006-01-02"), i.Messages, display.Short(display.OneLine(i.Meta.Title), maxSessionTitle))
		if i.ID == own {
			b.WriteString(" (this conversation)")
		}
		b.WriteByte('\n')
	}
	return display.Plural(len(list), "conversation", "conversations") + "\n" + display.Fence(b.String()), nil
}

// A page selects lines of a session: the newest, or the first, up to a limit.
type page struct {
	limit         int
	after, before int64 // line numbers; 0: all
	oldest        bool
}

// span restricts the page to the lines between two others.
func (p *page) span(after, before int64) {
	p.after = max(p.after, after)
	if p.before == 0 || p.before > before {
		p.before = before
	}
}

// read returns the selected messages, a numbered line each. It holds at most limit of them.
func (p *page) read(ctx context.Context, s *sessionlog.Session) (string, error) {
	var lines []string
	size, left := 0, 0 // left: messages that the result lacks
	for l, err := range s.Lines(0) {
		if err := cmp.Or(err, context.Cause(ctx)); err != nil {
			return "", err
		}
		if p.before > 0 && l.Number >= p.before {
			break
		}
		text := lineText(&l)
		if l.Number <= p.after || text == "" {
			continue
		}
		if p.oldest && (len(lines) == p.limit || size+len(text) > maxTranscript) {
			left++
			continue
		}
		lines, size = append(lines, text), size+len(text)
		for len(lines) > p.limit || size > maxTranscript {
			size -= len(lines[0])
			lines, left = lines[1:], left+1
		}
	}
	head := fmt.Sprintf("%s of %s", display.Plural(len(lines), "line", "lines"), display.Label(s.ID))
	if left > 0 {
		head += fmt.Sprintf("; %d %s: use before_line or after_line", left, map[bool]string{true: "later", false: "earlier"}[p.oldest])
	}
	return head + "\n" + display.Fence(strings.Join(lines, "")), nil
}

// lineText returns a message or a summary as one line, or "" for another line.
func lineText(l *sessionlog.Line) string {
	who, text := string(l.Message.Role), l.Message.Content
	switch l.Kind {
	case record.KindMessage:
		for _, c := range l.Message.ToolCalls {
			text += " [calls " + c.Function.Name + "]"
		}
	case record.KindMarker:
		who, text = "summary", l.Summary
	default:
		return ""
	}
	return fmt.Sprintf("%d %s: %s\n", l.Number, display.OneLine(who), display.Short(display.OneLine(text), maxLine))
}
