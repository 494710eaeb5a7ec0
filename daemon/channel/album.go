package channel

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"crabmem/daemon/box"
)

// How long a turn waits for more messages that belong to it.
const (
	albumWait = 2500 * time.Millisecond // after the newest part of an album
	albumMax  = 10 * time.Second        // after the oldest part of an album
	restWait  = 1500 * time.Millisecond // after a text of the full length
	textWait  = 2 * time.Second         // after a message without text
	restSent  = 2 * time.Second         // between two parts of a paste, by the platform's clock in seconds
)

const (
	separator = "\n\n"    // between a turn's messages
	maxTurn   = 256 << 10 // bytes of a turn of several messages
	moreLine  = "[channel: more of the same album]\n"
)

// begin stores the time of the first call of accept. Messages that the platform kept while the
// channel was stopped arrive in that call.
func (l *loop) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun.IsZero() {
		l.begun = l.Now()
		for _, w := range l.workers {
			w.signal()
		}
	}
}

func (l *loop) began() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun
}

// signal ends the worker's pause, or its next one.
func (w *worker) signal() { signal(w.woken) }

// due returns how long to wait for more of a turn's messages. If isCut is set, messages of
// another turn follow. Another process stored the messages before begun: they wait from begun on.
func due(list []box.Message, isCut bool, begun, now time.Time) (wait time.Duration) {
	oldest := make(map[string]time.Time) // of each album
	for i := range list {
		m, at := &list[i], list[i].At
		if at.Before(begun) {
			at = begun
		}
		var until time.Time
		switch isLast := i == len(list)-1 && !isCut; {
		case m.Album != "":
			if oldest[m.Album].IsZero() {
				oldest[m.Album] = at
			}
			until = at.Add(albumWait)
			if most := oldest[m.Album].Add(albumMax); most.Before(until) {
				until = most
			}
		case isLast && m.Full:
			until = at.Add(restWait)
		case isLast && m.NoText:
			until = at.Add(textWait)
		default:
			continue
		}
		if begun.IsZero() {
			return albumMax // begin ends the pause
		}
		wait = max(wait, until.Sub(now))
	}
	return wait
}

// isRest reports whether a message is the rest of a text that the platform cut.
func isRest(text, m *box.Message) bool {
	return text.Full && !m.NoText && m.Album == "" && m.Sender == text.Sender && m.Sent.Sub(text.Sent) <= restSent
}

// albums returns the albums with a part in a list.
func albums(list []box.Message) (ids []string) {
	for i := range list {
		if id := list[i].Album; id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// content is what the messages of a turn contain.
type content int

const (
	withText content = iota
	noText           // attachments
	onlyLate         // attachments of an album that has an answer: they join the next turn
)

// compose returns a turn of a conversation's oldest messages: a message that begins with a
// slash, or the messages before the next such one. Parts of one album and of one paste are not
// divided.
func compose(f *box.File) (t *box.Turn, kind content) {
	t = &box.Turn{Agent: f.Waiting[0].Agent, Session: f.Session}
	var text strings.Builder
	kind = onlyLate
	for i := range f.Waiting {
		m, joint := &f.Waiting[i], separator
		isPart := i > 0 && m.Album != "" && slices.Contains(albums(f.Waiting[:i]), m.Album)
		isMore, rest := !isPart && slices.Contains(f.Albums, m.Album), false
		switch {
		case text.Len() == 0:
			joint = ""
		case isRest(&f.Waiting[i-1], m):
			joint, isPart, rest = "", true, true
		}
		if isMore {
			joint += moreLine
		}
		divides := parse(m.Content) != noCommand || m.Agent != t.Agent || !isPart && (isSlash(&f.Waiting[0]) || isSlash(m))
		if i > 0 && (divides || text.Len()+len(joint)+len(m.Content)+len(m.FileText)+len(m.Quote) > maxTurn) {
			break
		}
		t.IDs, t.ReplyTo = append(t.IDs, m.ID), cmp.Or(t.ReplyTo, m.ReplyTo)
		switch {
		case rest: // the cut may be in the beginning of a forged line
			before := text.String()
			line := strings.LastIndexByte(before, '\n') + 1
			text.Reset()
			content := m.Content + m.FileText
			end := strings.IndexByte(content+"\n", '\n')
			text.WriteString(before[:line] + escape(before[line:]+content[:end]) + content[end:])
		case m.Content != "" || isMore:
			text.WriteString(joint + body(f.Waiting[:i], m))
		}
		switch {
		case !m.NoText && m.Content != "", m.File != "", m.FileText != "":
			kind = withText
		case kind == onlyLate && !slices.Contains(f.Albums, m.Album):
			kind = noText
		}
	}
	if m := &f.Waiting[0]; isSlash(m) && m.Sender != "" {
		text.WriteString("\n[channel: " + from(&m.Received) + "]")
	}
	t.Content = text.String()
	return t, kind
}

// isSlash reports whether a message begins with a command or the name of a skill.
func isSlash(m *box.Message) bool { return strings.HasPrefix(m.Content, "/") }
