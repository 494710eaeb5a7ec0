package sessionref

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
)

// The functions below refuse input that encoding/json accepts but serde_json
// refuses: a key in another case, a repeated known key, null for a string or an
// array, and a lone surrogate.

const (
	optional = false
	required = true
)

// object is a JSON object with its keys in order and its values unparsed.
type object []field

type field struct {
	key   string
	value []byte
}

func parseObject(text []byte) (object, error) {
	if !json.Valid(text) {
		var v any
		return nil, fmt.Errorf("not one JSON value: %w", json.Unmarshal(text, &v))
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not an object")
	}
	o := object{}
	for dec.More() {
		from := dec.InputOffset()
		if _, err := dec.Token(); err != nil {
			return nil, err
		}
		key, err := parseString(bytes.TrimLeft(text[from:dec.InputOffset()], ", \t\r\n"))
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		o = append(o, field{key, value})
	}
	return o, nil
}

// find returns the value of a key, or nil if the key is missing. It returns an
// error if the key is repeated, or if it is missing and must is true.
func (o object) find(key string, must bool) (value []byte, err error) {
	for _, f := range o {
		if f.key != key {
			continue
		}
		if value != nil {
			return nil, fmt.Errorf("duplicate field %q", key)
		}
		value = f.value
	}
	if value == nil && must {
		return nil, fmt.Errorf("missing field %q", key)
	}
	return value, nil
}

// text stores the string at a key in into.
func (o object) text(key string, into *string, must bool) error {
	value, err := o.find(key, must)
	if err != nil || value == nil {
		return err
	}
	if *into, err = parseString(value); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// unsigned stores the number at a key in into. It accepts only digits, because 1.0,
// 1e3, and -0 are floats.
func (o object) unsigned(key string, into *uint64, bits int) error {
	value, err := o.find(key, optional)
	if err != nil || value == nil {
		return err
	}
	if *into, err = strconv.ParseUint(string(value), 10, bits); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// array stores the unparsed elements of the array at a key in into.
func (o object) array(key string, into *[][]byte) error {
	value, err := o.find(key, optional)
	if err != nil || value == nil {
		return err
	}
	var raw []json.RawMessage
	if value[0] != '[' {
		return fmt.Errorf("%s: not an array", key)
	}
	if err := json.Unmarshal(value, &raw); err != nil {
		return err
	}
	for _, r := range raw {
		*into = append(*into, r)
	}
	return nil
}

// object returns the object at a key, which must exist.
func (o object) object(key string) (object, error) {
	value, err := o.find(key, required)
	if err != nil {
		return nil, err
	}
	return parseObject(value)
}

func parseString(raw []byte) (string, error) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", errors.New("not a string")
	}
	if err := paired(raw); err != nil {
		return "", err
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err
}

// paired returns an error if raw contains half of an escaped surrogate pair.
func paired(raw []byte) error {
	var high bool
	for i := 0; i < len(raw); i++ {
		var unit rune
		if raw[i] == '\\' {
			i++
			if raw[i] == 'u' {
				n, err := strconv.ParseUint(string(raw[i+1:i+5]), 16, 16)
				if err != nil {
					return err
				}
				unit = rune(n)
				i += 4
			}
		}
		low := utf16.IsSurrogate(unit) && unit >= 0xDC00
		if high != low {
			return errors.New("half a surrogate pair")
		}
		high = utf16.IsSurrogate(unit) && unit < 0xDC00
	}
	return nil // high is false, because a string ends with a quote
}
