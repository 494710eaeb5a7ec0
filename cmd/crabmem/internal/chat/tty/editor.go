// Package tty formats Markdown for a terminal, decodes keys, and edits a few lines
// of text. It reads and writes no file.
//
// Bubble Tea 2 with its text area would add 19 modules to the program and 0.3 ms to
// each start, of which the limit is 4 ms.
package tty

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"crabmem/cmd/crabmem/internal/cli"
)

// Editor edits a text of a few lines. The zero value is empty.
type Editor struct {
	// History contains earlier texts, oldest first.
	History []string
	// Complete returns the completions of the word before the cursor, and the
	// offset of that word in before. It may be nil.
	Complete func(before string) (from int, words []string)

	text []rune
	at   int // rune after the cursor
	goal int // column that up and down keep; -1: the cursor's

	place  int    // in History, from its end; 0: a new text
	kept   string // the new text while an earlier one is shown
	Offers []string

	search    *search // nil: no search
	lastQuery string  // of the previous search
}

// maxText limits a text, in runes.
const maxText = 1 << 20

// Text returns the text.
func (e *Editor) Text() string { return string(e.text) }

// Set replaces the text, moves the cursor to its end, and ends a search.
func (e *Editor) Set(s string) {
	e.search = nil
	e.show(s, utf8.RuneCountInString(s))
}

// show replaces the text and moves the cursor.
func (e *Editor) show(s string, at int) {
	e.text = []rune(s)
	e.at, e.goal, e.Offers = at, -1, nil
}

// Reset clears the text and keeps the history.
func (e *Editor) Reset() {
	e.Set("")
	e.place, e.kept = 0, ""
}

// Remember adds a text to the history unless it is blank or equals the last one.
func (e *Editor) Remember(s string) {
	if strings.TrimSpace(s) != "" && (len(e.History) == 0 || e.History[len(e.History)-1] != s) {
		e.History = append(e.History, s)
	}
}

// Key handles a key. done is true if the key completes the text.
func (e *Editor) Key(k Key) (done bool) {
	if k.Code != Tab {
		e.Offers = nil
	}
	if k.Code != Up && k.Code != Down {
		e.goal = -1
	}
	if e.search != nil {
		if e.searchKey(k) {
			return false
		} else if k.Code == Enter {
			return true
		}
	}
	switch k.Code {
	case Rune:
		e.insert(string(k.Rune))
	case Paste:
		e.insert(k.Text)
	case NewLine:
		e.insert("\n")
	case Enter:
		if e.at > 0 && e.at == len(e.text) && e.text[e.at-1] == '\\' {
			e.text[e.at-1] = '\n'
			return false
		}
		return true
	case Tab:
		e.complete()
	case Backspace:
		e.remove(e.at-1, e.at)
	case DeleteKey:
		e.remove(e.at, e.at+1)
	case DeleteWord:
		e.remove(e.wordLeft(), e.at)
	case DeleteNext:
		e.remove(e.at, e.wordRight())
	case Left:
		e.at = max(e.at-1, 0)
	case Right:
		e.at = min(e.at+1, len(e.text))
	case WordLeft:
		e.at = e.wordLeft()
	case WordRight:
		e.at = e.wordRight()
	case Home:
		e.at = e.lineStart(e.at)
	case End:
		e.at = e.lineEnd(e.at)
	case Up:
		e.up()
	case Down:
		e.down()
	case Ctrl:
		e.control(k.Rune)
	}
	return false
}

func (e *Editor) control(r rune) {
	switch r {
	case 'd':
		e.remove(e.at, e.at+1)
	case 'k':
		e.remove(e.at, max(e.lineEnd(e.at), e.at+1))
	case 'u':
		e.remove(e.lineStart(e.at), e.at)
	case 'p':
		e.older()
	case 'n':
		e.newer()
	case 'r':
		e.startSearch()
	}
}

func (e *Editor) insert(s string) {
	r := []rune(s)
	if room := maxText - len(e.text); len(r) > room {
		r = r[:max(room, 0)]
	}
	e.text = slices.Insert(e.text, e.at, r...)
	e.at += len(r)
}

func (e *Editor) remove(from, to int) {
	from, to = max(from, 0), min(to, len(e.text))
	if from >= to {
		return
	}
	e.text = slices.Delete(e.text, from, to)
	e.at = from
}

func wordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// back returns the start of the runes before i that satisfy is. forth returns the
// end of those from i on.
func (e *Editor) back(i int, is func(rune) bool) int {
	for i > 0 && is(e.text[i-1]) {
		i--
	}
	return i
}

func (e *Editor) forth(i int, is func(rune) bool) int {
	for i < len(e.text) && is(e.text[i]) {
		i++
	}
	return i
}

func noWordRune(r rune) bool { return !wordRune(r) }
func notEnd(r rune) bool     { return r != '\n' }

func (e *Editor) wordLeft() int       { return e.back(e.back(e.at, noWordRune), wordRune) }
func (e *Editor) wordRight() int      { return e.forth(e.forth(e.at, noWordRune), wordRune) }
func (e *Editor) lineStart(i int) int { return e.back(i, notEnd) }
func (e *Editor) lineEnd(i int) int   { return e.forth(i, notEnd) }

// up moves the cursor to the line above, or from the first line to the previous
// text of the history.
func (e *Editor) up() {
	start := e.lineStart(e.at)
	if start == 0 {
		e.older()
		return
	}
	e.column()
	above := e.lineStart(start - 1)
	e.at = min(above+e.goal, start-1)
}

func (e *Editor) down() {
	end := e.lineEnd(e.at)
	if end == len(e.text) {
		e.newer()
		return
	}
	e.column()
	e.at = min(end+1+e.goal, e.lineEnd(end+1))
}

func (e *Editor) column() {
	if e.goal < 0 {
		e.goal = e.at - e.lineStart(e.at)
	}
}

func (e *Editor) older() { e.recall(e.place + 1) }
func (e *Editor) newer() { e.recall(e.place - 1) }

// recall shows the text at a place in the history.
func (e *Editor) recall(place int) {
	if place < 0 || place > len(e.History) {
		return
	}
	if e.place == 0 {
		e.kept = e.Text()
	}
	e.place = place
	if place == 0 {
		e.Set(e.kept)
	} else {
		e.Set(e.History[len(e.History)-place])
	}
}

// complete inserts the common prefix of all completions. If there are several, it
// offers them.
func (e *Editor) complete() {
	if e.Complete == nil {
		return
	}
	before := string(e.text[:e.at])
	from, words := e.Complete(before)
	e.Offers = nil
	if len(words) == 0 || from > len(before) {
		return
	}
	common := words[0]
	for _, w := range words[1:] {
		for !strings.HasPrefix(w, common) {
			r := []rune(common)
			common = string(r[:len(r)-1])
		}
	}
	if len(words) == 1 {
		common += " "
	} else {
		e.Offers = words
	}
	if typed := before[from:]; len(common) > len(typed) && strings.HasPrefix(common, typed) {
		e.insert(common[len(typed):])
	}
}

// tab shows a tab, as [cli.Clean] does.
var tab = []rune("    ")

// View returns the text after a prompt as at most height rows of at most width
// columns, and the position of the cursor.
func (e *Editor) View(prompt string, width, height int) (rows []string, row, col int) {
	indent := cli.Columns(prompt)
	room := max(width-indent-1, 4)
	line, n, at := []rune{}, 0, 0
	flush := func() {
		p := strings.Repeat(" ", indent)
		if len(rows) == 0 {
			p = prompt
		}
		rows = append(rows, p+string(line))
		line, n = line[:0], 0
	}
	for i := 0; ; i++ {
		if i == e.at {
			row, col, at = len(rows), indent+n, i
		}
		if i == len(e.text) {
			break
		}
		r := e.text[i]
		if r == '\n' {
			flush()
			continue
		}
		cell, c := e.text[i:i+1], cli.RuneColumns(r)
		if r == '\t' {
			cell, c = tab, len(tab)
		}
		if n+c > room {
			flush()
			if i == at && i == e.at {
				row, col = len(rows), indent
			}
		}
		line = append(line, cell...)
		n += c
	}
	flush()
	if height > 0 && len(rows) > height {
		from := min(max(row-height/2, 0), len(rows)-height)
		rows, row = rows[from:from+height], row-from
	}
	return rows, row, col
}
