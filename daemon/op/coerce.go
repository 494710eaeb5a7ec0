package op

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"crabmem/bm25/clip"

	"github.com/google/jsonschema-go/jsonschema"
)

// Clients send values that only resemble what a schema requires. The checker reads each of
// them as the one value that it can mean. It never changes a value that the schema permits.

// outer returns the arguments as an object: a client may send them as JSON text, and no
// arguments as an empty value.
func (c *checker) outer(b []byte) []byte {
	var text string
	if len(b) > 0 && b[0] == '"' && json.Unmarshal(b, &text) == nil {
		b, c.nested = bytes.TrimSpace([]byte(text)), hasSurrogate(text)
	}
	if slices.Contains([]string{"", "[]", "null"}, string(b)) {
		return []byte("{}")
	}
	return b
}

// hasSurrogate reports whether a JSON text may have the escape of a surrogate.
func hasSurrogate(text string) bool {
	return strings.Contains(text, `\ud`) || strings.Contains(text, `\uD`)
}

// encodes reports whether a text is the JSON of a list or object that a schema requires.
func encodes(text, want string) bool {
	text = strings.TrimSpace(text)
	return (want == "array" && strings.HasPrefix(text, "[") || want == "object" && strings.HasPrefix(text, "{")) && json.Valid([]byte(text))
}

// decode checks the value in a JSON text.
func (c *checker) decode(text string, s *jsonschema.Schema, at string, required bool, depth int) (any, error) {
	d, nested := c.d, c.nested
	defer func() { c.d, c.nested = d, nested }()
	c.d, c.nested = json.NewDecoder(strings.NewReader(text)), nested || hasSurrogate(text)
	c.d.UseNumber()
	return c.value(s, at, required, depth)
}

// isEmpty reports whether a token begins an empty list or object in place of an optional
// value of another type, and reads its end.
func (c *checker) isEmpty(want string, t json.Token, required bool) (empty bool, err error) {
	if _, ok := t.(json.Delim); !ok || required || want == "" || wordOf(t) == wordsOf[want] || c.d.More() {
		return false, nil
	}
	_, err = c.token()
	return true, err
}

// coerce returns the token that a client means. It is nil for an absent value.
func (c *checker) coerce(s *jsonschema.Schema, want string, t json.Token, at string, required bool) json.Token {
	if s == nil || want == "" {
		return t
	}
	if text, ok := t.(string); ok {
		t = coerceText(s, want, text, required)
	}
	switch v := t.(type) {
	case bool:
		if want == "string" {
			t = strconv.FormatBool(v)
		}
	case json.Number:
		if want == "string" {
			t = v.String()
		} else if want == "integer" || want == "number" {
			t = c.coerceNumber(s, want, v, at, required)
		}
	}
	if text, ok := t.(string); ok && len(s.Enum) > 0 {
		return nearestWord(s.Enum, text)
	}
	return t
}

func coerceText(s *jsonschema.Schema, want, text string, required bool) json.Token {
	word := strings.TrimSpace(text)
	if !required {
		isWord := want != "string" || len(s.Enum) > 0 && !slices.Contains(s.Enum, any(text))
		if isWord && (word == "" || word == "null") || text == "" && (s.MinLength != nil || s.Format != "") {
			return nil
		}
	}
	switch want {
	case "boolean":
		if b := strings.EqualFold(word, "true"); b || strings.EqualFold(word, "false") {
			return b
		}
	case "integer", "number":
		var n float64
		if word != "null" && json.Unmarshal([]byte(word), &n) == nil {
			return json.Number(word)
		}
	}
	return text
}

// coerceNumber returns nil for an optional 0 that is too small, and the maximum for an
// optional number that is too large.
func (c *checker) coerceNumber(s *jsonschema.Schema, want string, n json.Number, at string, required bool) json.Token {
	f, _ := strconv.ParseFloat(n.String(), 64) // out of range: infinite
	switch {
	case !required && f == 0 && s.Minimum != nil && *s.Minimum > 0:
		return nil
	case !required && s.Maximum != nil && f > *s.Maximum:
		most := json.Number(strconv.FormatInt(int64(*s.Maximum), 10))
		c.notes = append(c.notes, fmt.Sprintf("%s %s was read as %s, the maximum", at, clip.Bytes(n.String(), maxFaultText), most))
		return most
	}
	if _, err := n.Int64(); err != nil && want == "integer" && f == math.Trunc(f) && math.Abs(f) <= 1<<53 {
		return json.Number(strconv.FormatInt(int64(f), 10)) // such as 10.0
	}
	return n
}

// nearestWord returns the only word that a text is in other letters, or the text.
func nearestWord(words []any, text string) string {
	var same []string
	for _, w := range words {
		if word, _ := w.(string); word == text {
			return text
		} else if strings.EqualFold(word, strings.TrimSpace(text)) {
			same = append(same, word)
		}
	}
	if len(same) == 1 {
		return same[0]
	}
	return text
}
