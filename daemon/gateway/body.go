package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"
)

// The limits of a body.
const (
	maxBody    = 1 << 20
	maxBigBody = 9 << 20
	maxDepth   = 64
)

func (c *call) limit() int64 {
	if c.route.big {
		return maxBigBody
	}
	return maxBody
}

func (c *call) tooLarge() *Problem {
	return problemf(http.StatusRequestEntityTooLarge, "too_large", "the body is larger than %d bytes", c.limit())
}

// decode reads the body.
func (c *call) decode(to any) error {
	b, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, c.limit()))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return c.tooLarge()
	}
	if err != nil {
		return invalidf("the body could not be read")
	}
	c.received()
	if err := checkJSON(b); err != nil {
		return invalidf("the body is not valid: %v", err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return invalidf("the body is not valid: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// checkJSON returns an error for a text that is not one object, is nested too deep, or
// has a key twice, which programs read in different ways.
func checkJSON(b []byte) error {
	if !utf8.Valid(b) {
		return errors.New("want UTF-8")
	}
	if b = bytes.TrimSpace(b); len(b) == 0 || b[0] != '{' {
		return errors.New("want a JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var open []map[string]bool // the keys of open objects; nil for an array
	key := false               // the next string is a key
	for {
		t, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), "json: "))
		}
		switch v := t.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				if len(open) == maxDepth {
					return fmt.Errorf("nested more than %d deep", maxDepth)
				}
				var keys map[string]bool
				if v == '{' {
					keys = make(map[string]bool)
				}
				open = append(open, keys)
			} else {
				open = open[:len(open)-1]
			}
			if len(open) == 0 && d.More() {
				return errors.New("want one JSON object")
			}
		case string:
			if key {
				folded := strings.ToLower(v) // as encoding/json compares keys
				if open[len(open)-1][folded] {
					return fmt.Errorf("the key %q occurs twice", printable(v))
				}
				open[len(open)-1][folded] = true
				key = false
				continue
			}
		}
		key = len(open) > 0 && open[len(open)-1] != nil
	}
}
