package tty

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
	"unicode/utf8"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/display"
)

// Code says which key it is.
type Code uint8

// The keys. A Rune has its rune, Paste its text; Ctrl has the letter that was
// pressed with it. Other is a key that does not change a text, such as Escape.
const (
	None Code = iota // one that means nothing here
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
	Other
)

// Key is one key press, or a text that was pasted.
type Key struct {
	Code Code
	Rune rune
	Text string
}

// Keys turns what a terminal sends into key presses. Its zero value is ready.
type Keys struct {
	left  []byte // the beginning of something
	paste bool
	text  []byte // pasted so far
}

// maxPaste is how much of a pasted text is kept, in bytes.
const maxPaste = 1 << 20

// maxSequence is how long an escape sequence may be. What is longer is none.
const maxSequence = 64

var pasteEnd = []byte("\x1b[201~")

// Feed takes bytes in and returns the keys that they complete. An escape at
// their end is the key: what begins with one comes in one piece.
func (k *Keys) Feed(b []byte) []Key {
	var keys []Key
	b = append(k.left, b...)
	k.left = nil
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
			n = 1 // it will never be whole
		}
		b = b[n:]
		if key.Code != None {
			keys = append(keys, key)
		}
	}
	return keys
}

// pasted takes in what was pasted and returns how many bytes it took.
func (k *Keys) pasted(b []byte) (n int, done bool) {
	end := bytes.Index(b, pasteEnd)
	n, done = end, end >= 0
	next := end + len(pasteEnd)
	if !done {
		n = max(len(b)-len(pasteEnd)+1, 0) // the end may have begun
		next = n
	}
	k.text = append(k.text, b[:min(n, max(maxPaste-len(k.text), 0))]...)
	return next, done
}

func pastedText(b []byte) string {
	s := strings.ReplaceAll(strings.ToValidUTF8(string(b), ""), "\r\n", "\n")
	return cli.Clean(strings.ReplaceAll(s, "\r", "\n"))
}

// one returns the first key of b and how many bytes it has; 0 when more are
// needed.
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

// controls are the letters that are another key with Ctrl.
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

// alts are what is pressed with Alt.
var alts = map[rune]Code{
	'\r': NewLine, '\n': NewLine, 'b': WordLeft, 'f': WordRight, 'd': DeleteNext, 0x7f: DeleteWord, 0x08: DeleteWord,
}

func (k *Keys) escape(b []byte) (Key, int) {
	if len(b) == 1 || b[1] == 0x1b {
		return Key{Code: Other}, 1
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

// tildes are what is sent as ESC [ number ~.
var tildes = map[int]Code{1: Home, 3: DeleteKey, 4: End, 5: Other, 6: Other, 7: Home, 8: End}

// csi reads ESC [ parameters final.
func (k *Keys) csi(b []byte) (Key, int) {
	i := 2
	for i < len(b) && (b[i] < 0x40 || b[i] > 0x7e) {
		if b[i] < 0x20 || b[i] > 0x7e || i >= maxSequence {
			return Key{}, i // broken off
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
			params[j], _ = strconv.Atoi(p) // what is none is 0
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

var codepoints = map[int]Code{9: Tab, 13: Enter, 27: Other, 127: Backspace}

// codepoint is a key of the kitty protocol.
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

// final is the key that the last byte of a sequence names.
func final(c byte, mods int) Key {
	code := finals[c]
	if (mods-1)&(altKey|ctrlKey) != 0 {
		code = cmp.Or(map[Code]Code{Right: WordRight, Left: WordLeft}[code], code)
	}
	return Key{Code: code}
}
