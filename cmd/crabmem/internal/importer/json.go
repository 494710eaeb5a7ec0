package importer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"crabmem/sessionlog/foreign"
)

// object is a JSON object whose keys are compared exactly.
type object map[string]json.RawMessage

func parseObject(raw []byte) (object, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("invalid UTF-8")
	}
	var o object
	if kind := foreign.JSONType(raw); kind != "object" {
		return nil, fmt.Errorf("a JSON %s, want an object", kind)
	}
	err := json.Unmarshal(raw, &o)
	return o, err
}

// as is a value of a type, the zero value when it is of another. The value is
// valid JSON, or empty.
func as[T any](v json.RawMessage) (t T) {
	_ = json.Unmarshal(v, &t)
	return t
}

func (o object) str(key string) string             { return as[string](o[key]) }
func (o object) sub(key string) object             { return as[object](o[key]) }
func (o object) list(key string) []json.RawMessage { return as[[]json.RawMessage](o[key]) }

// says reports whether a value is not empty.
func says(v json.RawMessage) bool {
	s := strings.TrimSpace(string(v))
	return !slices.Contains([]string{"", "null", `""`, "[]", "{}", "false"}, s)
}

// keys returns the keys with nonempty values, in order, except those in but.
func (o object) keys(but ...string) []string {
	var keys []string
	for k, v := range o {
		if says(v) && !slices.Contains(but, k) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// plain is a value as text: a string as it is, anything else as JSON.
func plain(v json.RawMessage) string {
	if foreign.JSONType(v) == "string" {
		return as[string](v)
	}
	return compact(v)
}

func compact(v json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		return ""
	}
	return b.String()
}

// when is a time: text, or seconds since 1970.
func (o object) when(key string) time.Time {
	switch v := o[key]; foreign.JSONType(v) {
	case "string":
		return timeOf(as[string](v))
	case "number":
		secs, _ := strconv.ParseFloat(string(v), 64) // infinite if it is out of range
		if secs < 0 || secs > 253_402_300_799 {      // the year 9999
			return time.Time{}
		}
		whole, part := math.Modf(secs)
		return time.Unix(int64(whole), int64(part*1e6)*1e3).UTC()
	}
	return time.Time{}
}

// counted is a reader that knows a limit.
type counted struct {
	r    io.Reader
	left int64
	err  error
}

func (c *counted) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, c.err
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// limited reads at most maxSource bytes, and skips a mark at the beginning.
func limited(r io.Reader) io.Reader {
	b := bufio.NewReaderSize(&counted{r, maxSource, sizeError("the source", maxSource)}, 1<<16)
	if mark, _ := b.Peek(3); string(mark) == "\ufeff" {
		_, _ = b.Discard(3)
	}
	return b
}

// elements calls take with every element of an array, one at a time: of the
// text itself if it is an array, or of the first array under one of keys if it
// is an object. Otherwise it calls take with the object and any objects after
// it. rest gets the other values of the object.
func elements(r io.Reader, keys []string, take func(n int, raw json.RawMessage) error, rest func(key string, raw json.RawMessage)) error {
	dec := json.NewDecoder(limited(r))
	n := 0
	one := func(raw json.RawMessage) error {
		if n++; n > maxRecords {
			return fmt.Errorf("more than %d records", maxRecords)
		}
		return take(n, raw)
	}
	for first := true; ; first = false {
		if first {
			if array, err := opensArray(dec); err != nil {
				return err
			} else if array {
				if err := arrayOf(dec, one); err != nil {
					return err
				}
				return end(dec)
			}
		}
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if err == io.EOF && !first {
			return nil
		}
		if err != nil {
			return readError(err)
		}
		o, _ := parseObject(raw)
		i := slices.IndexFunc(keys, func(k string) bool { return foreign.JSONType(o[k]) == "array" })
		if i < 0 {
			if err := one(raw); err != nil {
				return err
			}
			continue
		}
		for _, v := range o.list(keys[i]) {
			if err := one(v); err != nil {
				return err
			}
		}
		for _, k := range o.keys(keys[i]) {
			rest(k, o[k])
		}
	}
}

// opensArray reads the opening bracket of an array, if the text has one.
func opensArray(dec *json.Decoder) (bool, error) {
	if !dec.More() {
		_, err := dec.Token()
		if err == nil || err == io.EOF {
			err = errors.New("empty")
		}
		return false, readError(err)
	}
	c, err := io.ReadAll(io.LimitReader(dec.Buffered(), 64))
	if err != nil {
		return false, err
	}
	if foreign.JSONType(c) != "array" {
		return false, nil
	}
	_, err = dec.Token()
	return true, readError(err)
}

func arrayOf(dec *json.Decoder, one func(json.RawMessage) error) error {
	for dec.More() {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return readError(err)
		}
		if err := one(raw); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return readError(err)
}

// end returns an error unless the text ends.
func end(dec *json.Decoder) error {
	if _, err := dec.Token(); err != io.EOF {
		if err == nil {
			err = errors.New("more than one value")
		}
		return readError(err)
	}
	return nil
}

func readError(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
