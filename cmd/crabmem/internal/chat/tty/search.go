package tty

import (
	"strings"
	"unicode/utf8"
)

// search is an incremental search of the history, from the newest text back. The
// editor shows the found text or, until it finds one, the text from before.
type search struct {
	query string
	found bool
	place int // of the found text, as in Editor

	text            string // before the search
	at, before      int
	kept, lastQuery string
}

// Searching returns the query of the active search, and whether a text of the history
// contains it. ok is false if no search is active.
func (e *Editor) Searching() (query string, found, ok bool) {
	if e.search == nil {
		return "", false, false
	}
	return e.search.query, e.search.found, true
}

// Empty reports whether there is no text and no active search.
func (e *Editor) Empty() bool { return len(e.text) == 0 && e.search == nil }

func (e *Editor) startSearch() {
	e.search = &search{text: e.Text(), at: e.at, before: e.place, kept: e.kept, lastQuery: e.lastQuery, found: true}
}

// CancelSearch ends the search and restores the text from before it.
func (e *Editor) CancelSearch() {
	s := e.search
	if s == nil {
		return
	}
	e.Set(s.text)
	e.at, e.place, e.kept = min(s.at, len(e.text)), s.before, s.kept
}

// acceptSearch ends the search and keeps the found text.
func (e *Editor) acceptSearch() {
	s := e.search
	if s.place > 0 {
		if s.before == 0 {
			e.kept = s.text
		}
		e.place = s.place
	}
	if s.query != "" {
		e.lastQuery = s.query
	}
	e.search = nil
}

// searchKey handles a key of an active search. It returns false if the key ended
// the search and still applies to the found text.
func (e *Editor) searchKey(k Key) bool {
	s := e.search
	switch {
	case k.Code == Rune:
		e.find(s.query+string(k.Rune), max(s.place, 1), 1)
	case k.Code == Paste:
		e.find(s.query+k.Text, max(s.place, 1), 1)
	case k.Code == Backspace:
		_, n := utf8.DecodeLastRuneInString(s.query)
		e.find(s.query[:len(s.query)-n], 1, 1)
	case k.Code == Ctrl && k.Rune == 'r' && s.query == "":
		e.find(s.lastQuery, 1, 1)
	case k.Code == Ctrl && k.Rune == 'r':
		e.find(s.query, s.place+1, 1)
	case k.Code == Ctrl && k.Rune == 's':
		e.find(s.query, s.place-1, -1)
	case k.Code == Ctrl && k.Rune == 'g', k.Code == Escape:
		e.CancelSearch()
	default:
		e.acceptSearch()
		return false
	}
	return true
}

// find shows the first text of the history that contains query. It begins at place;
// step is 1 for older texts and -1 for newer ones. It skips texts equal to the shown
// one. If it finds no text, the shown one stays.
func (e *Editor) find(query string, place, step int) {
	s := e.search
	if len(query) > maxQuery {
		return
	}
	again := query == s.query
	s.query = query
	if query == "" {
		s.found, s.place = true, 0
		e.show(s.text, min(s.at, utf8.RuneCountInString(s.text)))
		return
	}
	for ; place > 0 && place <= len(e.History); place += step {
		text := e.History[len(e.History)-place]
		if i := strings.LastIndex(text, query); i >= 0 && !(again && s.place > 0 && text == e.Text()) {
			s.found, s.place = true, place
			e.show(text, utf8.RuneCountInString(text[:i]))
			return
		}
	}
	s.found = false
}

// maxQuery limits the text to search for, in bytes.
const maxQuery = 8 << 10
