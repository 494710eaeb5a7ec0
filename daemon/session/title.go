package session

import (
	"cmp"
	"errors"
	"strings"
	"unicode"

	"crabmem/daemon/agent"
	"crabmem/daemon/config"
	"crabmem/daemon/usage"
)

// Values of [sessions] titles.
const (
	titlesModel     = "model"
	titlesFirstLine = "first-line"
)

// maxTitle limits a title, in characters.
const maxTitle = 60

// titleOf returns a title: the first line of a text that contains a word, without
// control characters, with single spaces, and cut after a word to maxTitle.
func titleOf(text string) string {
	for line := range strings.FieldsFuncSeq(text, endsLine) {
		if title := oneLineTitle(line); title != "" {
			return title
		}
	}
	return ""
}

func endsLine(r rune) bool { return r >= '\n' && r <= '\r' || r == 0x85 || r == 0x2028 || r == 0x2029 }

// endsWord reports whether r is a space or an invisible character, such as a control
// character. Two invisible characters do not end a word: they join or separate
// letters in it (U+200C and U+200D).
func endsWord(r rune) bool {
	return unicode.IsSpace(r) || !unicode.IsGraphic(r) && r != '\u200c' && r != '\u200d'
}

// oneLineTitle is titleOf for one line.
func oneLineTitle(line string) string {
	var title []rune
	for word := range strings.FieldsFuncSeq(line, endsWord) {
		before := len(title)
		if before > 0 {
			title = append(title, ' ')
		}
		for _, r := range word {
			if len(title) == maxTitle {
				if before == 0 { // the first word is too long, or the script has no spaces
					before = maxTitle - 1
				}
				return string(title[:before]) + "…"
			}
			title = append(title, r)
		}
	}
	return string(title)
}

// firstTitle returns the title of a session whose first message is text. It returns
// "" if [sessions] titles is off.
func (m *Manager) firstTitle(text string) string {
	if t := m.o.Setup().Config.Sessions.Titles; t != titlesModel && t != titlesFirstLine {
		return ""
	}
	return titleOf(text)
}

// titleEmpty titles a session without messages and title, such as one whose daemon
// was killed before the first message. Create writes the title of a new session in
// the meta line. The caller holds the run slot.
func (m *Manager) titleEmpty(l *Session, text string) {
	if s := l.session; len(s.Messages) > 0 || s.Compactions > 0 || l.Title() != "" {
		return
	}
	title := m.firstTitle(text)
	if title == "" {
		return
	}
	set, err := l.log.ReplaceTitle("", title)
	if err != nil {
		m.o.Log.Debug("title session", "session", l.log.ID(), "error", err)
	}
	if set {
		l.setTitle(title)
		l.firstTitle = title
	}
}

func (l *Session) setTitle(title string) { l.title.Store(&title) }

// titleByModel requests a title in the background, from the model of the first turn
// with an answer. The result replaces the title only if the title is still the first
// line. Sessions of tasks keep the first line. So do sessions if the sender of that
// turn, such as a cron entry, did not create the session. The caller holds the run
// slot.
func (m *Manager) titleByModel(s Setup, a *agent.Agent, r *Run) {
	l := r.Session
	first := l.firstTitle
	l.firstTitle = "" // one attempt
	model := cmp.Or(a.Model, s.Runner.Models.Active())
	if first == "" || s.Config.Sessions.Titles != titlesModel || model == config.Offline || r.depth > 0 || r.Sender != l.createdBy {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.background.Err() != nil {
		return
	}
	m.titles.Go(func() { // ends with the request, which Stop cancels
		text, err := s.Runner.Title(usage.With(m.background, l.agent, r.Sender), model, r.Content, r.Answer)
		title := strings.Trim(titleOf(text), "\"'`*#_“”«» ")
		if err == nil && title == "" {
			err = errNoTitle
		}
		set := false
		if err == nil {
			set, err = l.log.ReplaceTitle(first, title)
		}
		if set {
			l.setTitle(title)
		}
		if err != nil {
			m.o.Log.Debug("title session", "session", l.log.ID(), "model", model, "error", err)
		}
	})
}

var errNoTitle = errors.New("the model returned no title")
