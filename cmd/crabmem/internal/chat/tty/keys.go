package tty

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/display"
)

// Code identifies a key.
type Code uint8

// The keys. Rune and Ctrl set Key.Rune; Paste sets Key.Text. Other is a key
// without a function in an editor, such as Page Up.
const (
	None Code = iota // unknown sequence
	Rune
	Paste
	Ctrl
	Enter
	NewLine // Enter with Shift or Alt
	Tab
	Backspace
	DeleteKey
	Up
	Down
	Left
	Right
	Home
	End
	WordLeft
	WordRight
	DeleteWord // backward
	DeleteNext // forward
	Escape
	Other
)

// Key is a key press or a pasted text.
type Key struct {
	Code Code
	Rune rune
	Text string
}

// Keys decodes the input from a terminal. The zero value is ready.
type Keys struct {
	left  []byte // incomplete sequence
	paste bool
	text  []byte // pasted so far
}

// maxPaste limits a pasted text, in bytes. The rest is dropped.
const maxPaste = 1 << 20

// maxSequence limits an escape sequence, in bytes. Longer input is no sequence.
const maxSequence = 64

var pasteEnd = []byte("\x1b[201~")

// pasteGap is the longest time between two pieces of a paste. A person needs longer
// from Enter to the next key.
const pasteGap = 20 * time.Millisecond

// Bursts emits the pieces that a terminal sends. It joins a piece with a line end and
// those that follow within pasteGap: [Keys.Feed] then sees that they are one paste. It
// returns after the end of pieces, or when emit returns false.
func Bursts(pieces <-chan []byte, emit func([]byte) bool) {
	for b := range pieces {
		for open := true; open && len(b) < maxPaste && bytes.ContainsAny(b, "\r\n"); {
			select {
			case more := <-pieces:
				b, open = append(b, more...), more != nil
			case <-time.After(pasteGap):
				open = false
			}
		}
		if !emit(b) {
			return
		}
	}
}

// isPaste reports whether b is a paste of a terminal that does not mark pastes: a text
// without keys but line ends and tabs, in which text follows a line end.
func isPaste(b []byte) bool {
	return bytes.ContainsAny(bytes.TrimRight(b, "\r\n"), "\r\n") &&
		!bytes.ContainsFunc(b, func(r rune) bool { return r < 0x20 && r != '\r' && r != '\n' && r != '\t' || r == 0x7f })
}

// Feed decodes b and returns the complete keys. An escape at the end of b is the
// Escape key: terminals send a sequence in one piece.
func (k *Keys) Feed(b []byte) []Key {
	var keys []Key
	b = append(k.left, b...)
	k.left = nil
	if !k.paste && isPaste(b) {
		n := len(b) - 1
		for n > 0 && !utf8.RuneStart(b[n]) {
			n--
		}
		if utf8.FullRune(b[n:]) {
			n = len(b)
		}
		k.left = bytes.Clone(b[n:])
		return []Key{{Code: Paste, Text: pastedText(b[:min(n, maxPaste)])}}
	}
	for len(b) > 0 {
		if k.paste {
			n, done := k.pasted(b)
			b = b[n:]
			if !done {
				k.left = bytes.Clone(b)
				return keys
			}
			keys = append(keys, Key{Code: Paste, Text: pastedText(k.text)})
			k.paste, k.text = false, nil
			continue
		}
		key, n := k.one(b)
		if n == 0 {
			if len(b) < maxSequence {
				k.left = bytes.Clone(b)
				return keys
			}
			n = 1 // never complete
		}
		b = b[n:]
		if key.Code != None {
			keys = append(keys, key)
		}
	}
	return keys
}

// pasted adds pasted text and returns the number of bytes it used.
func (k *Keys) pasted(b []byte) (n int, done bool) {
	end := bytes.Index(b, pasteEnd)
	n, done = end, end >= 0
	next := end + len(pasteEnd)
	if !done {
		n = max(len(b)-len(pasteEnd)+1, 0) // b may end within the end mark
		next = n
	}
	k.text = append(k.text, b[:min(n, max(maxPaste-len(k.text), 0))]...)
	return next, done
}

func pastedText(b []byte) string {
	s := strings.ReplaceAll(strings.ToValidUTF8(string(b), ""), "\r\n", "\n")
	return cli.CleanInput(strings.ReplaceAll(s, "\r", "\n"))
}

// one returns the first key of b and its length in bytes, or 0 if b is
// incomplete.
func (k *Keys) one(b []byte) (Key, int) {
	switch c := b[0]; {
	case c == 0x1b:
		return k.escape(b)
	case c == 0x7f:
		return Key{Code: Backspace}, 1
	case c < 0x20:
		return control(rune(c) | 0x60), 1
	}
	if !utf8.FullRune(b) {
		return Key{}, 0
	}
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError && n == 1 || !display.Showable(r) {
		return Key{}, n
	}
	return Key{Code: Rune, Rune: r}, n
}

// controls maps the letters that Ctrl turns into other keys.
var controls = map[rune]Code{
	'a': Home, 'b': Left, 'e': End, 'f': Right, 'h': Backspace, 'i': Tab, 'j': NewLine, 'm': Enter, 'w': DeleteWord,
}

func control(r rune) Key {
	code := controls[r]
	if code == None && r >= 'a' && r <= 'z' {
		code = Ctrl
	}
	return Key{Code: code, Rune: r}
}

// alts maps the keys with Alt.
var alts = map[rune]Code{
	'\r': NewLine, '\n': NewLine, 'b': WordLeft, 'f': WordRight, 'd': DeleteNext, 0x7f: DeleteWord, 0x08: DeleteWord,
}

func (k *Keys) escape(b []byte) (Key, int) {
	if len(b) == 1 || b[1] == 0x1b {
		return Key{Code: Escape}, 1
	}
	switch b[1] {
	case '[':
		return k.csi(b)
	case 'O':
		if len(b) == 2 {
			return Key{}, 0
		}
		return final(b[2], 1), 3
	}
	if !utf8.FullRune(b[1:]) {
		return Key{}, 0
	}
	r, n := utf8.DecodeRune(b[1:])
	return Key{Code: alts[r]}, 1 + n
}

// tildes maps the numbers of ESC [ number ~.
var tildes = map[int]Code{1: Home, 3: DeleteKey, 4: End, 5: Other, 6: Other, 7: Home, 8: End}

// csi decodes ESC [ parameters final.
func (k *Keys) csi(b []byte) (Key, int) {
	i := 2
	for i < len(b) && (b[i] < 0x40 || b[i] > 0x7e) {
		if b[i] < 0x20 || b[i] > 0x7e || i >= maxSequence {
			return Key{}, i // cut off
		}
		i++
	}
	if i == len(b) {
		return Key{}, 0
	}
	var params [3]int
	for j, p := range strings.SplitN(string(b[2:i]), ";", 4) {
		if j < 3 {
			p, _, _ = strings.Cut(p, ":")
			params[j], _ = strconv.Atoi(p) // 0 if it is not a number
		}
	}
	n := i + 1
	mods := max(params[1], 1)
	switch b[i] {
	case 'u':
		return codepoint(params[0], mods), n
	case '~':
		switch params[0] {
		case 27: // xterm's modifyOtherKeys
			return codepoint(params[2], mods), n
		case 200:
			k.paste = true
		}
		return Key{Code: tildes[params[0]]}, n
	}
	return final(b[i], mods), n
}

// The modifiers, as terminals add them to 1.
const (
	shiftKey = 1
	altKey   = 2
	ctrlKey  = 4
)

var codepoints = map[int]Code{9: Tab, 13: Enter, 27: Escape, 127: Backspace}

// codepoint returns a key of the kitty protocol.
func codepoint(r, mods int) Key {
	m := mods - 1
	code := codepoints[r]
	switch {
	case code == Enter && m&(shiftKey|altKey|ctrlKey) != 0:
		code = NewLine
	case code == Tab && m&shiftKey != 0:
		code = Other
	case code == Backspace && m&(altKey|ctrlKey) != 0:
		code = DeleteWord
	case code != None:
	case m&ctrlKey != 0:
		return control(rune(r))
	case m&altKey != 0:
		code = alts[rune(r)]
	case r >= 0x20 && r <= utf8.MaxRune && utf8.ValidRune(rune(r)) && display.Showable(rune(r)) && !(r >= 0xe000 && r <= 0xf8ff):
		return Key{Code: Rune, Rune: rune(r)}
	}
	return Key{Code: code}
}

var finals = map[byte]Code{'A': Up, 'B': Down, 'C': Right, 'D': Left, 'H': Home, 'F': End, 'M': Enter, 'Z': Other}

// final returns the key of the last byte of a sequence.
func final(c byte, mods int) Key {
	code := finals[c]
	if (mods-1)&(altKey|ctrlKey) != 0 {
		code = cmp.Or(map[Code]Code{Right: WordRight, Left: WordLeft}[code], code)
	}
	return Key{Code: code}
}
