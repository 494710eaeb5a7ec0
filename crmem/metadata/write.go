package metadata

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrInvalid is wrapped by every error of this package. It means a field that front
// matter cannot contain, or front matter that exceeds a limit.
var ErrInvalid = errors.New("invalid metadata")

// Set returns a content with fields, in place of those with the same keys. A field
// without values removes its key. All bytes outside the lines of the changed fields
// stay the same. New front matter is canonical.
func Set(content string, fields ...Field) (string, error) {
	for _, f := range fields {
		if err := f.check(); err != nil {
			return "", err
		}
	}
	added := slices.Clone(fields)
	slices.SortStableFunc(added, func(a, b Field) int { return cmp.Compare(rank(a.Key), rank(b.Key)) })
	for _, f := range added {
		content = set(content, f)
	}
	m, _, _ := Parse(content)
	for _, f := range fields {
		if !slices.Equal(m.Values(f.Key), f.Values) {
			return "", fmt.Errorf("%w: the front matter would exceed %d bytes or %d keys", ErrInvalid, MaxBytes, MaxKeys)
		}
	}
	return content, nil
}

// set returns a content with one field. If the result exceeds a limit, Parse finds no
// front matter in it.
func set(content string, f Field) string {
	if len(f.Values) == 0 {
		return remove(content, f.Key)
	}
	m, _, ok := Parse(content)
	if !ok {
		eol := "\n"
		if first, _, found := strings.Cut(content, "\n"); found && strings.HasSuffix(first, "\r") {
			eol = "\r\n"
		}
		return "---" + eol + f.Line() + eol + "---" + eol + content
	}
	at := span{from: m.end, to: m.end}
	for i, old := range m.fields {
		switch {
		case old.Key != f.Key:
		case old.List == f.List && slices.Equal(old.Values, f.Values):
			return content
		default:
			at = m.spans[i]
		}
	}
	return content[:at.from] + f.Line() + m.eol + content[at.to:]
}

// Remove returns a content without the fields of keys. If no other line is left, it
// removes the front matter, unless the text after it would become front matter.
func Remove(content string, keys ...string) string {
	for _, key := range keys {
		content = remove(content, key)
	}
	return content
}

func remove(content, key string) string {
	m, body, _ := Parse(content)
	for i, f := range m.fields {
		if f.Key != key {
			continue
		}
		at := m.spans[i]
		others := content[len("---")+len(m.eol):at.from] + content[at.to:m.end]
		if _, _, again := Parse(content[body:]); strings.TrimSpace(others) == "" && !again {
			return content[body:]
		}
		return content[:at.from] + content[at.to:]
	}
	return content
}

// Merge returns the content for a text that replaces old: the text with the front
// matter of old, if the text has none.
func Merge(old, text string) string {
	m, body, has := Parse(old)
	if _, _, own := Parse(text); own || !has {
		return text
	}
	front := old[:body]
	if !strings.HasSuffix(front, "\n") {
		front += m.eol
	}
	return front + text
}

// An Edit is a change of the metadata of an entry.
type Edit struct {
	Set  []Field `json:"set,omitempty"`  // fields to set; one without values removes its key
	Drop bool    `json:"drop,omitempty"` // remove all other metadata
	New  []Field `json:"new,omitempty"`  // fields of a new entry, unless Set or the text has them
}

// Apply returns the content for a text that replaces old: with the front matter of
// the text, or else of old, and with the changes of the edit. If the edit sets a
// field, the entry becomes [Adopted].
func (e *Edit) Apply(old, text string) (string, error) {
	if e.Drop {
		for {
			_, body, ok := Parse(text)
			if !ok {
				break
			}
			text = text[body:]
		}
	} else {
		text = Merge(old, text)
	}
	fields := e.Set
	if old == "" {
		text = withNew(text, e)
	}
	if slices.ContainsFunc(fields, func(f Field) bool { return len(f.Values) > 0 }) {
		fields = append(slices.Clip(fields), Field{Key: Adopted, Values: []string{"1"}})
	}
	return Set(text, fields...)
}

// withNew returns a new entry's text with the fields e.New. It omits a field that exceeds a
// limit. Front matter outside the grammar gets no fields.
func withNew(text string, e *Edit) string {
	m, _, ok := Parse(text)
	if open, _, _, _, _ := Split(text); !ok && open != "" {
		return text
	}
	for _, f := range e.New {
		if m.Values(f.Key) != nil || slices.ContainsFunc(e.Set, func(s Field) bool { return s.Key == f.Key }) {
			continue
		}
		if with, err := Set(text, f); err == nil {
			text = with
		}
	}
	return text
}

// Validate returns the error that Apply returns for every entry, or nil.
func (e *Edit) Validate() error {
	_, err := (&Edit{Set: e.Set}).Apply("", "")
	return err
}

// check returns an error for a field that front matter cannot contain.
func (f *Field) check() error {
	if !validKey(f.Key) {
		return fmt.Errorf("%w: key %.80q: use letters, digits, spaces, and _-./", ErrInvalid, f.Key)
	}
	if !f.List && len(f.Values) > 1 {
		return fmt.Errorf("%w: %s: %d values, at most one", ErrInvalid, f.Key, len(f.Values))
	}
	for _, v := range f.Values {
		if !utf8.ValidString(v) {
			return fmt.Errorf("%w: %s: the value is not UTF-8", ErrInvalid, f.Key)
		}
	}
	return nil
}

// NewField returns the field for the values of a flag or an argument. Without a value
// that is not empty, the field removes its key. Relations take names of entries.
func NewField(key string, values ...string) (Field, error) {
	f := Field{Key: key}
	for _, v := range values {
		if strings.TrimSpace(v) == "" {
			continue
		}
		v, err := fieldValue(key, v)
		if err != nil {
			return Field{}, err
		}
		if !slices.Contains(f.Values, v) {
			f.Values = append(f.Values, v)
		}
	}
	f.List = key == Tags && len(f.Values) > 0 || len(f.Values) > 1
	return f, f.check()
}

// fieldValue returns the value to store for a value of a flag or an argument.
func fieldValue(key, v string) (string, error) {
	switch {
	case slices.Contains(Relations, key):
		name := strings.TrimSpace(v)
		if inner, ok := strings.CutPrefix(name, "[["); ok && strings.HasSuffix(inner, "]]") {
			name = strings.TrimSuffix(inner, "]]")
		}
		return LinkTo(name)
	case key == Adopted:
		return "", fmt.Errorf("%w: key %s: set another key, or run crabmem metadata adopt", ErrInvalid, key)
	}
	word := strings.TrimSpace(v)
	switch key {
	case Type:
		if strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_' }) {
			return "", fmt.Errorf("%w: type %.80q: want a word, such as %s", ErrInvalid, v, strings.Join(TypeNames(), ", "))
		}
	case Tags:
		if word = strings.TrimPrefix(word, "#"); word == "" || strings.ContainsAny(word, ",\r\n") {
			return "", fmt.Errorf("%w: tag %.80q: want a word without commas", ErrInvalid, v)
		}
	case Importance:
		if _, ok := importance(word); !ok {
			return "", fmt.Errorf("%w: importance %.80q: want a number from 0 to 1", ErrInvalid, v)
		}
	case Position:
		if _, err := strconv.ParseUint(word, 10, 64); err != nil {
			return "", fmt.Errorf("%w: position %.80q: want a number from 0", ErrInvalid, v)
		}
	case Expires:
		if _, ok := expiry(word); !ok {
			return "", fmt.Errorf("%w: expires %.80q: want a day, such as 2026-04-14", ErrInvalid, v)
		}
	case Pinned:
		if word != "true" && word != "false" {
			return "", fmt.Errorf("%w: pinned %.80q: want true or false", ErrInvalid, v)
		}
	default:
		return v, nil
	}
	return word, nil
}

// rank returns the place of a key in the canonical order.
func rank(key string) int {
	switch i := slices.Index(order, key); {
	case key == Adopted:
		return len(order) + 1
	case i < 0:
		return len(order)
	default:
		return i
	}
}

// Line returns the canonical line of a field, without its end.
func (f *Field) Line() string {
	if !f.List {
		if len(f.Values) == 0 {
			return f.Key + ":"
		}
		if v := f.Values[0]; f.Key == Pinned && (v == "true" || v == "false") {
			return f.Key + ": " + v // a boolean of YAML
		}
		return f.Key + ": " + written(f.Values[0], false)
	}
	var b strings.Builder
	b.WriteString(f.Key + ": [")
	for i, v := range f.Values {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(written(v, true))
	}
	b.WriteByte(']')
	return b.String()
}

// words are plain scalars, in lower case, that YAML does not read as strings.
var words = []string{"null", "~", "true", "false", "yes", "no", "on", "off", "y", "n"}

// written returns the scalar for a value: plain if possible, else in double quotes.
func written(v string, inFlow bool) string {
	if v == strings.TrimSpace(v) && printable(v) && isPlain(v, inFlow) && !slices.Contains(words, strings.ToLower(v)) {
		return v
	}
	return Quote(v)
}

// Quote returns the scalar in double quotes for a value.
func Quote(v string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range v {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case printable(string(r)) && unicode.IsGraphic(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
