package foreign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// object is a JSON object. Keys are compared exactly, unlike those of Go structs.
// If a key occurs twice, the last value counts.
type object map[string]json.RawMessage

// parseObject parses a line. It refuses text that encoding/json would alter,
// except lone surrogates: some programs split texts inside a surrogate pair.
func parseObject(line []byte) (object, error) {
	if !utf8.Valid(line) {
		return nil, errors.New("invalid UTF-8")
	}
	var o object
	err := json.Unmarshal(line, &o)
	switch _, wrong := errors.AsType[*json.UnmarshalTypeError](err); {
	case wrong, err == nil && o == nil:
		return nil, fmt.Errorf("a JSON %s, want an object", JSONType(line))
	case err != nil:
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	return o, nil
}

// decode decodes a part of a valid text.
func decode[T any](b []byte) (v T) {
	if err := json.Unmarshal(b, &v); err != nil {
		panic("crabmem: internal error: " + err.Error())
	}
	return v
}

// has reports whether the object has a value for key that is not null.
func (o object) has(key string) bool {
	v := o[key]
	return len(v) > 0 && v[0] != 'n'
}

// want returns the value of key. It returns nil if the value is missing or
// null, and an error if it is not of the given kind.
func (o object) want(key, kind string) ([]byte, error) {
	v := o[key]
	if !o.has(key) {
		return nil, nil
	}
	if k := JSONType(v); k != kind {
		return nil, fmt.Errorf("%q is a JSON %s", key, k)
	}
	return v, nil
}

// str returns a string, or "" if it is missing or null.
func (o object) str(key string) (string, error) {
	v, err := o.want(key, "string")
	if v == nil || err != nil {
		return "", err
	}
	return decode[string](v), nil
}

// text returns a string, or "" for any other value.
func (o object) text(key string) string {
	s, _ := o.str(key)
	return s
}

func (o object) flag(key string) bool { return string(o[key]) == "true" }

// sub returns an object, or nil if it is missing or null.
func (o object) sub(key string) (object, error) {
	v, err := o.want(key, "object")
	if v == nil || err != nil {
		return nil, err
	}
	return decode[object](v), nil
}

// object returns an object, or nil for any other value.
func (o object) object(key string) object {
	v, _ := o.sub(key)
	return v
}

// blocks returns an array of objects. A single text counts as an array of one
// block.
func (o object) blocks(key string) ([]object, error) {
	if o.has(key) && o[key][0] == '"' {
		return []object{{"type": json.RawMessage(`"text"`), "text": o[key]}}, nil
	}
	v, err := o.want(key, "array")
	if v == nil || err != nil {
		return nil, err
	}
	var list []object
	for _, b := range decode[[]json.RawMessage](v) {
		if b[0] != '{' {
			return nil, fmt.Errorf("%q contains a JSON %s", key, JSONType(b))
		}
		list = append(list, decode[object](b))
	}
	return list, nil
}

// compactJSON returns a valid value without white space, or "{}" for a call
// without arguments.
func compactJSON(v []byte) string {
	var b bytes.Buffer
	if len(v) == 0 || json.Compact(&b, v) != nil {
		return "{}"
	}
	return b.String()
}

// JSONType names the type of the value that begins a JSON text; "nothing" if the
// text is empty.
func JSONType(v []byte) string {
	v = bytes.TrimLeft(v, " \t\r\n")
	if len(v) == 0 {
		return "nothing"
	}
	switch v[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// LoneSurrogate returns the offset of the first escape of a lone surrogate in
// JSON text, which encoding/json silently replaces, or -1 if there is none.
func LoneSurrogate(s string) int {
	half := func(i int) (lo, ok bool) {
		if len(s)-i < 6 || s[i] != '\\' || s[i+1] != 'u' || s[i+2]|0x20 != 'd' {
			return false, false
		}
		switch s[i+3] | 0x20 {
		case '8', '9', 'a', 'b':
			return false, true
		case 'c', 'd', 'e', 'f':
			return true, true
		}
		return false, false
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		lo, ok := half(i)
		if !ok {
			i++ // the escaped character is not the start of another escape
			continue
		}
		if next, _ := half(i + 6); lo || !next {
			return i
		}
		i += 11
	}
	return -1
}
