package channel

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"crabmem/bm25/clip"
	"crabmem/daemon/box"
	"crabmem/daemon/display"
	"crabmem/daemon/lazyregexp"
)

const (
	// MaxFile is the largest text file that the channel fetches, in bytes.
	MaxFile    = 256 << 10
	maxFetches = 5   // of a file
	maxName    = 100 // bytes of the name of a file or of a person
)

// Attachment describes a file in a message.
type Attachment struct {
	Kind     string // a word; empty: the message has no file
	Name     string // by the sender, or empty
	Size     int64  // bytes; 0: unknown
	TextFile string // the platform's ID, if it is a text of at most MaxFile bytes
}

// ownLine matches the beginning of a text's line that looks like a line of the channel.
var ownLine = lazyregexp.New(`(?i)((?:^|[\n\v\f\r\x{85}\x{2028}\x{2029}])[\pZ\pC]*)(\[[\pZ\pC]*channel[\pZ\pC]*:)`)

// escape returns a person's text without lines that begin as those of the channel.
func escape(text string) string { return ownLine().ReplaceAllString(text, `$1\$2`) }

// quoted returns a name of a person or a file on one line, in quotes.
func quoted(name string) string {
	return strconv.Quote(clip.Bytes(strings.ToValidUTF8(name, "\ufffd"), maxName))
}

// content returns the text of a message for the agent.
func (m *Message) content() string {
	text := escape(m.Text)
	if m.Kind == "" {
		return text
	}
	if text != "" {
		text += "\n"
	}
	text += "[channel: " + m.Kind
	if m.Attachment.Name != "" {
		text += " " + quoted(m.Attachment.Name)
	}
	if m.Size > 0 {
		text += ", " + display.Size(m.Size)
	}
	return text + "]"
}

// fenced returns the text of a file between two lines that it does not contain.
func fenced(text string) string {
	marks := fence
	for strings.Contains(text, marks) {
		marks += fence[:1]
	}
	return "\n" + marks + "\n" + strings.TrimRight(text, "\n") + "\n" + marks
}

// fetch stores the text of a message's file, or a line that the file cannot be read.
func (w *worker) fetch(m *box.Message) error {
	text, err := w.p.Fetch(w.ctx, m.File)
	if w.ctx.Err() != nil {
		return w.ctx.Err()
	}
	if failed, certain := errors.AsType[*SendError](err); err != nil && (!certain || failed.Retry) {
		if w.fetches++; w.fetches < maxFetches {
			return fmt.Errorf("fetch file: %w", err)
		}
	}
	w.fetches = 0
	if err != nil {
		w.Log.Warn("a file is not fetched", "conversation", w.conversation, "error", err)
		text = "\n[channel: the file cannot be read]"
	} else {
		text = fenced(text)
	}
	return w.box.Update(w.conversation, func(f *box.File) bool {
		for i := range f.Waiting {
			if f.Waiting[i].ID == m.ID {
				f.Waiting[i].File, f.Waiting[i].FileText = "", text
				return true
			}
		}
		return false // a command to stop ended it
	})
}
