package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"crabmem/daemon/display"
)

// maxList is the limit of values in a list.
const maxList = 1000

// A section reads the keys of one table. Each method that reads a key does not
// change its target if the key is missing, and adds a problem if the value is
// invalid. A key that no method reads is unknown.
type section struct {
	f     *file
	name  string // of the table, dotted; "" at the top
	t     *table
	asked map[string]bool
}

func newSection(f *file, name string, t *table) *section {
	return &section{f: f, name: name, t: t, asked: make(map[string]bool)}
}

func (s *section) full(key string) string {
	if s.name == "" {
		return key
	}
	return s.name + "." + key
}

func (s *section) get(key string) (value, bool) {
	s.asked[key] = true
	v, ok := s.t.keys[key]
	return v, ok
}

func (s *section) has(key string) bool {
	_, ok := s.t.keys[key]
	return ok
}

// at returns where a key is, or where its table begins.
func (s *section) at(key string) place {
	if v, ok := s.t.keys[key]; ok {
		return place{s.f, v.line}
	}
	return place{s.f, s.t.line}
}

func (s *section) wrong(key string, v value, want string) {
	s.f.add(v.line, "%s: got %s, want %s", s.full(key), kindOf(v.v), want)
}

func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a number"
	case bool:
		return "a boolean"
	case []value:
		return "a list"
	case *table:
		return "a table"
	}
	return "a date or time"
}

// scalar reads a value of type T, and reports whether it did. want names the type.
func scalar[T any](s *section, key, want string, to *T) bool {
	v, ok := s.get(key)
	if !ok {
		return false
	}
	t, ok := v.v.(T)
	if !ok {
		s.wrong(key, v, want)
		return false
	}
	*to = t
	return true
}

func (s *section) str(key string, to *string)   { scalar(s, key, "a string", to) }
func (s *section) boolean(key string, to *bool) { scalar(s, key, "true or false", to) }

// enum reads one of the words.
func (s *section) enum(key string, to *string, words ...string) {
	text := *to
	s.str(key, &text)
	if text != *to && !slices.Contains(words, text) {
		s.at(key).unknown(text, words, "%s: unknown value '%s': want one of %s", s.full(key), short(text), strings.Join(words, ", "))
		return
	}
	*to = text
}

func (s *section) integer(key string, to *int, low, high int) {
	var n int64
	switch {
	case !scalar(s, key, "an integer", &n):
	case n < int64(low) || n > int64(high):
		s.at(key).add("%s: %d is not between %d and %d", s.full(key), n, low, high)
	default:
		*to = int(n)
	}
}

// fraction reads a number from 0 to 1.
func (s *section) fraction(key string, to *float64) {
	v, ok := s.get(key)
	if !ok {
		return
	}
	f, ok := v.v.(float64)
	if n, isInt := v.v.(int64); isInt {
		f, ok = float64(n), true
	}
	switch {
	case !ok:
		s.wrong(key, v, "a number")
	case !(f >= 0 && f <= 1):
		s.f.add(v.line, "%s: %v is not between 0 and 1", s.full(key), f)
	default:
		*to = f
	}
}

// duration reads an integer of seconds or a text such as "1m30s".
func (s *section) duration(key string, to *time.Duration, low, high time.Duration) {
	v, ok := s.get(key)
	if !ok {
		return
	}
	d, ok := asDuration(v.v)
	if !ok {
		s.f.add(v.line, `%s: it must be seconds, or a text like "90s" or "5m"`, s.full(key))
		return
	}
	if d < low || d > high {
		s.f.add(v.line, "%s: %v is not between %v and %v", s.full(key), d, low, high)
		return
	}
	*to = d
}

func asDuration(v any) (time.Duration, bool) {
	switch v := v.(type) {
	case int64:
		if v < 0 || v > int64(1<<63-1)/int64(time.Second) {
			return 0, false
		}
		return time.Duration(v) * time.Second, true
	case string:
		d, err := time.ParseDuration(v)
		return d, err == nil
	}
	return 0, false
}

// each calls do for every string of a list, with its line.
func (s *section) each(key string, do func(text string, line int)) bool {
	var list []value
	if !scalar(s, key, "a list of strings", &list) {
		return false
	}
	if len(list) > maxList {
		s.at(key).add("%s: %d values, more than the limit of %d", s.full(key), len(list), maxList)
		return false
	}
	for _, e := range list {
		text, ok := e.v.(string)
		if !ok {
			s.f.add(e.line, "%s: list contains %s, want only strings", s.full(key), kindOf(e.v))
			continue
		}
		do(text, e.line)
	}
	return true
}

// strs reads a list of names.
func (s *section) strs(key string, to *[]string) {
	list := []string{}
	if s.each(key, func(text string, line int) {
		if why := badName(text); why != "" {
			s.f.add(line, "%s: name %s", s.full(key), why)
			return
		}
		list = append(list, text)
	}) {
		*to = list
	}
}

// table returns the section of a key, and an empty one when it is missing.
func (s *section) table(key string) *section {
	sub := newSection(s.f, s.full(key), &table{line: s.t.line})
	again := s.asked[key]
	v, ok := s.get(key)
	if !ok {
		return sub
	}
	t, ok := v.v.(*table)
	if !ok {
		if !again {
			s.wrong(key, v, "a table")
		}
		return sub
	}
	t.line = v.line
	sub.t = t
	return sub
}

// tables calls do for each table of a table of tables, in the order of the file.
func (s *section) tables(key string, do func(name string, sub *section)) {
	all := s.table(key)
	for _, name := range all.t.names() {
		if why := badName(name); why != "" {
			all.at(name).add("%s: name %s", all.name, why)
			continue
		}
		if _, ok := all.t.keys[name].v.(*table); !ok {
			all.wrong(name, all.t.keys[name], "a table")
			continue
		}
		sub := all.table(name)
		do(name, sub)
		sub.done()
	}
}

// done reports the keys that were not read.
func (s *section) done() {
	known := slices.Sorted(maps.Keys(s.asked))
	for _, key := range s.t.names() {
		if !s.asked[key] {
			s.at(key).unknown(key, known, "unknown key '%s'%s", short(key), within(s.name))
		}
	}
}

func within(name string) string {
	if name == "" {
		return ""
	}
	return " in " + name
}

// badName returns why the name of a provider, model, skill, or the like is
// invalid, or "".
func badName(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > 256:
		return fmt.Sprintf("has %d bytes, more than the limit of 256", len(name))
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case strings.IndexFunc(name, unicode.IsControl) >= 0:
		return fmt.Sprintf("has a control character: %q", name)
	}
	return ""
}

// short shortens a quotation in a message.
func short(text string) string {
	return display.Short(text, 80)
}
