package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"crabmem/crmem"
	"crabmem/daemon/op"
)

// maxItems limits each list in a body, so that a list of millions is refused at the first
// item too many.
const maxItems = crmem.MaxAliases

// own reports whether this program defines the body of a route. The others have the shape
// of another vendor's.
func (r *route) own() bool { return r.style == "" && !strings.HasPrefix(r.path, hookPath) }

// checkBody returns an error for a text that is not one object, is nested too deep, or has
// a key twice, which programs read in different ways. If t is set, the text must also have
// the shape that the schema of t describes: package encoding/json accepts a missing field,
// null, and a key in other letters.
func checkBody(b []byte, t reflect.Type) error {
	if !utf8.Valid(b) {
		return errors.New("want UTF-8")
	}
	if b = bytes.TrimSpace(b); len(b) == 0 || b[0] != '{' {
		return errors.New("want a JSON object")
	}
	s := shape{json.NewDecoder(bytes.NewReader(b))}
	s.d.UseNumber()
	if err := s.value(t, "", false, 0); err != nil {
		return err
	}
	if _, err := s.d.Token(); err != io.EOF {
		return errors.New("want one JSON object")
	}
	return nil
}

// shape checks the values that a decoder reads.
type shape struct{ d *json.Decoder }

// token returns the next token.
func (s *shape) token() (json.Token, error) {
	t, err := s.d.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		err = errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return t, err
}

// value checks the next value. t is its type; nil accepts any. at is the path of the value
// for messages, and depth the number of open objects and lists.
func (s *shape) value(t reflect.Type, at string, required bool, depth int) error {
	next, err := s.token()
	if err != nil {
		return err
	}
	if t != nil {
		got, want := kindOf(next), wanted(t)
		if isNull := next == nil; isNull && (required || !isNullable(t)) || !isNull && want != "" && got != want {
			return fmt.Errorf("%s: want %s, not %s", at, want, got)
		}
	}
	open, ok := next.(json.Delim)
	if !ok {
		return nil
	}
	if depth == maxDepth {
		return fmt.Errorf("nested more than %d deep", maxDepth)
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if open == '{' {
		err = s.object(t, at, depth+1)
	} else {
		err = s.list(t, at, depth+1)
	}
	if err == nil {
		_, err = s.token() // the end
	}
	return err
}

func (s *shape) list(t reflect.Type, at string, depth int) error {
	if t != nil {
		t = t.Elem()
	}
	for i := 0; s.d.More(); i++ {
		if t != nil && i == maxItems {
			return fmt.Errorf("%s: more than %d items", at, maxItems)
		}
		one := at
		if t != nil {
			one = fmt.Sprintf("%s[%d]", at, i)
		}
		if err := s.value(t, one, true, depth); err != nil {
			return err
		}
	}
	return nil
}

func (s *shape) object(t reflect.Type, at string, depth int) error {
	fields := op.Fields(t)
	seen := make(map[string]bool)
	for s.d.More() {
		next, err := s.token()
		if err != nil {
			return err
		}
		key := next.(string)           // else the decoder returns an error
		folded := strings.ToLower(key) // as encoding/json compares keys
		if seen[folded] {
			return fmt.Errorf("the key %q occurs twice", printable(key))
		}
		seen[folded] = true
		i := slices.IndexFunc(fields, func(f op.Field) bool { return f.Name == key })
		if i < 0 && t != nil && t.Kind() == reflect.Struct {
			if i = slices.IndexFunc(fields, func(f op.Field) bool { return strings.EqualFold(f.Name, key) }); i >= 0 {
				return fmt.Errorf("unknown field %q: want %s", printable(key), fields[i].Name)
			}
			return fmt.Errorf("unknown field %q", printable(key))
		}
		f := op.Field{Name: printable(key)}
		if i >= 0 {
			f = fields[i]
		} else if t != nil { // a map
			f.Type, f.Required = t.Elem(), true
		}
		if err := s.value(f.Type, strings.TrimPrefix(at+"."+f.Name, "."), f.Required, depth); err != nil {
			return err
		}
	}
	for _, f := range fields {
		if f.Required && !seen[strings.ToLower(f.Name)] {
			return fmt.Errorf("%s is missing", strings.TrimPrefix(at+"."+f.Name, "."))
		}
	}
	return nil
}

// isNullable reports whether the schema of a type accepts null.
func isNullable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return true
	}
	return false
}

// wanted returns the kind of JSON values of a type; empty: any.
func wanted(t reflect.Type) string {
	if t.Kind() != reflect.Pointer && op.IsText(t) {
		return "a string"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Interface:
		return ""
	}
	return "an integer"
}

// kindOf returns the kind of the value that begins with a token.
func kindOf(t json.Token) string {
	switch t := t.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "true or false"
	case json.Delim:
		if t == '[' {
			return "a list"
		}
		return "an object"
	case json.Number:
		if _, err := t.Int64(); err == nil {
			return "an integer"
		}
	}
	return "a number"
}
