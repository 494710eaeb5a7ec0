package config

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"crabmem/daemon/display"
)

// maxList is the limit of values in a list.
const maxList = 1000

// A section is a table of a file, which may be missing.
type section struct {
	l    *loader
	f    *file
	src  *source
	name string // dotted; "" at the top
	path string
	t    tree
}

func (s *section) full(key string) string {
	if s.name == "" {
		return key
	}
	return s.name + "." + key
}

func (s *section) has(key string) bool {
	_, ok := s.t[key]
	return ok
}

// empty reports that a key is missing or an empty text.
func (s *section) empty(key string) bool { return !s.has(key) || s.t[key] == "" }

// at returns where a key is, or where its table begins.
func (s *section) at(key string) place { return place{s.f, s.src.line(s.path + "\x00" + key)} }

// add adds a problem of a key. The message begins with the key.
func (s *section) add(key, format string, args ...any) {
	s.at(key).add("%s: %s", s.full(key), fmt.Sprintf(format, args...))
}

func (s *section) wrong(key, want string) {
	s.add(key, "got %s, want %s", kindOf(s.t[key]), want)
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
	case []any:
		return "a list"
	case tree:
		return "a table"
	}
	return "a date or time"
}

// table returns the table of a dotted key, and an empty one if it is missing.
func (s *section) table(key string) *section {
	for name := range strings.SplitSeq(key, ".") {
		s = s.child(name)
	}
	return s
}

func (s *section) child(name string) *section {
	return &section{s.l, s.f, s.src, s.full(name), s.path + "\x00" + name, sub(s.t, name)}
}

// tables returns the valid tables of a table, in the order of the file.
func (s *section) tables(key string) iter.Seq2[string, *section] {
	all := s.child(key)
	return func(yield func(string, *section) bool) {
		for _, name := range s.src.sorted(all.path, all.t) {
			if _, ok := all.t[name].(tree); ok && badName(name) == "" && !yield(name, all.child(name)) {
				return
			}
		}
	}
}

// items returns the texts of a list, with their places.
func (s *section) items(key string) iter.Seq2[string, place] {
	return func(yield func(string, place) bool) {
		list, _ := s.t[key].([]any)
		for i, e := range list[:min(len(list), maxList)] {
			line := s.src.line(fmt.Sprintf("%s\x00%s\x00%d", s.path, key, i))
			if text, ok := e.(string); ok && !yield(text, place{s.f, line}) {
				return
			}
		}
	}
}

// check adds the problems of unknown keys in the table, which is a pattern of schema, and
// in all tables below.
func (s *section) check(pattern string) {
	known := schema()[pattern]
	for _, key := range s.src.sorted(s.path, s.t) {
		r := known[key]
		if named := known["*"]; named != nil {
			if r = named; badName(key) != "" {
				s.at(key).add("%s: name %s", s.name, badName(key))
				continue
			}
		}
		switch _, isTable := s.t[key].(tree); {
		case r == nil:
			in := ""
			if s.name != "" {
				in = " in " + s.name
			}
			s.at(key).unknown(key, slices.Sorted(maps.Keys(known)), "unknown key '%s'%s", short(key), in)
		case r.marks&isGroup == 0:
		case isTable:
			s.child(key).check(below(pattern, key))
		default:
			s.wrong(key, "a table")
		}
	}
}

// read reads the values of rows.
func (s *section) read(rows []row) {
	for i := range rows {
		r := &rows[i]
		table, key := cutLast(r.path)
		in := s
		if table != "" {
			in = s.table(table)
		}
		if v, ok := in.t[key]; ok {
			in.set(r, key, v)
		}
		if r.marks&unused != 0 && in.has(key) {
			s.l.warn(in.at(key), "%s has no effect: remove it", in.full(key))
		}
	}
}

// setDefaults sets the values of rows to their defaults.
func setDefaults(rows []row) {
	for i := range rows {
		if v := rows[i].defaultValue(); v != nil {
			(&section{src: &source{}}).set(&rows[i], rows[i].path, v)
		}
	}
}

// set sets the value of a row. An invalid value is a problem.
func (s *section) set(r *row, key string, v any) {
	switch to := r.to.(type) {
	case nil: // ignored
	case func(*section, any):
		to(s, v)
	case *time.Duration:
		d, ok := asDuration(v)
		if !ok {
			s.add(key, `it must be seconds, or a text like "90s" or "5m"`)
		} else if limit := r.limit.(span); int64(d) < limit.low || int64(d) > limit.high {
			s.add(key, "%v is not between %v and %v", d, time.Duration(limit.low), time.Duration(limit.high))
		} else {
			*to = d
		}
	case *float64:
		n, isInt := v.(int64)
		f, ok := v.(float64)
		if isInt {
			f, ok = float64(n), true
		}
		if !ok {
			s.wrong(key, "a number")
		} else if !(f >= 0 && f <= 1) {
			s.add(key, "%v is not between 0 and 1", f)
		} else {
			*to = f
		}
	case *int:
		if n, ok := v.(int64); !ok {
			s.wrong(key, "an integer")
		} else if limit := r.limit.(span); n < limit.low || n > limit.high {
			s.add(key, "%d is not between %d and %d", n, limit.low, limit.high)
		} else {
			*to = int(n)
		}
	case *bool:
		if b, ok := v.(bool); ok {
			*to = b
		} else {
			s.wrong(key, "true or false")
		}
	case *[]string:
		list := s.list(key, v, r.marks&texts == 0)
		if list == nil {
			return
		}
		*to = list
		for _, text := range list {
			s.limited(r, key, text)
		}
	case *[]Secret:
		if s.list(key, v, false) != nil {
			for text, at := range s.items(key) {
				*to = append(*to, Secret(s.l.expand(at, s.full(key), text, true)))
			}
		}
	case *map[string]int, *map[string]string, *map[string][]string, *map[string]Secret:
		s.setMap(r, key, v)
	default:
		s.setText(r, key, v)
	}
}

func (s *section) setMap(r *row, key string, v any) {
	t, ok := v.(tree)
	if !ok {
		s.wrong(key, "a table")
		return
	}
	to := reflect.ValueOf(r.to).Elem()
	to.Set(reflect.MakeMapWithSize(to.Type(), len(t)))
	in := s.child(key)
	for _, name := range in.src.sorted(in.path, t) {
		one, broken := reflect.New(to.Type().Elem()), len(in.l.broken)
		in.set(&row{path: name, to: one.Interface(), limit: r.limit, marks: r.marks | ofVariable}, name, t[name])
		if v, ok := one.Interface().(*Secret); ok && (name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(string(*v), "\x00")) {
			in.at(name).add("%s: a name or value contains a NUL byte, or a name contains =", in.full(short(name)))
			continue
		}
		if len(in.l.broken) > broken {
			continue
		}
		to.SetMapIndex(reflect.ValueOf(name), one.Elem())
	}
}

// setText sets a row whose value is a string.
func (s *section) setText(r *row, key string, v any) {
	text, ok := v.(string)
	if !ok {
		s.wrong(key, "a string")
		return
	}
	if !s.limited(r, key, text) {
		return
	}
	_, isSecret := r.to.(*Secret)
	if text != "" && (isSecret || r.marks&variables != 0) {
		text = s.l.expand(s.at(key), s.full(key), text, isSecret)
	}
	switch to := r.to.(type) {
	case func(*section, string):
		to(s, text)
	case keyFile:
		s.l.secretFile(s, key, text, to)
	case textFile:
		s.l.textFile(s, key, text, to)
	default:
		if isSecret && r.marks&ofVariable == 0 && strings.IndexFunc(text, unicode.IsControl) >= 0 {
			s.add(key, "it has a control character, such as a line end")
		}
		reflect.ValueOf(to).Elem().SetString(text)
	}
}

// limited reports whether a text is one of the words of a row, and valid.
func (s *section) limited(r *row, key, text string) bool {
	switch limit := r.limit.(type) {
	case words:
		if !slices.Contains(limit, text) {
			s.at(key).unknown(text, limit, "%s: unknown value '%s': want one of %s", s.full(key), short(text), strings.Join(limit, ", "))
			return false
		}
	case func(string) error:
		if err := limit(text); err != nil {
			s.add(key, "%v", err)
		}
	}
	return true
}

// list returns the strings of a list, or nil if it is none. If names is set, each must be
// a name.
func (s *section) list(key string, v any, names bool) []string {
	list, ok := v.([]any)
	if !ok {
		s.wrong(key, "a list of strings")
		return nil
	}
	if len(list) > maxList {
		s.add(key, "%d values, more than the limit of %d", len(list), maxList)
		return nil
	}
	texts := make([]string, 0, len(list))
	for i, e := range list {
		at := place{s.f, s.src.line(fmt.Sprintf("%s\x00%s\x00%d", s.path, key, i))}
		if text, ok := e.(string); !ok {
			at.add("%s: list contains %s, want only strings", s.full(key), kindOf(e))
		} else if why := badName(text); names && why != "" {
			at.add("%s: name %s", s.full(key), why)
		} else {
			texts = append(texts, text)
		}
	}
	return texts
}

// asDuration returns the duration of an integer of seconds, or of a text such as "1m30s".
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
