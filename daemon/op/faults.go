package op

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"crabmem/bm25/clip"
	"crabmem/daemon/display"

	"github.com/google/jsonschema-go/jsonschema"
)

// kindOf returns the type of the values of a schema other than null, or "" for any.
func kindOf(s *jsonschema.Schema) string {
	if s == nil {
		return ""
	}
	for _, kind := range s.Types {
		if kind != "null" {
			return kind
		}
	}
	return s.Type
}

// wordsOf describes the types of schemas for an error.
var wordsOf = map[string]string{
	"string": "text", "object": "an object", "array": "a list", "boolean": "true or false", "number": "a number", "integer": "a whole number",
}

// wordOf describes the type of the value that begins with a token.
func wordOf(t json.Token) string {
	switch t {
	case nil:
		return "null"
	case json.Delim('{'):
		return "an object"
	case json.Delim('['):
		return "a list"
	}
	switch t.(type) {
	case string:
		return "text"
	case bool:
		return "true or false"
	}
	return "a number"
}

// scalarFault describes how a text or number, or the type of a value, violates a schema.
func scalarFault(s *jsonschema.Schema, want string, t json.Token) string {
	got := wordOf(t)
	if word := wordsOf[want]; word != "" && got != word && !(want == "integer" && got == "a number") {
		if text, ok := t.(string); ok {
			got += " " + ShownValue(text)
			if want == "array" && kindOf(s.Items) == "string" {
				got += ": send a list, such as [" + ShownValue(text) + "]"
			}
		}
		return " must be " + word + ", and is " + got
	}
	switch t := t.(type) {
	case string:
		return textFault(s, t)
	case json.Number:
		return numberFault(s, want, t)
	}
	return ""
}

func textFault(s *jsonschema.Schema, text string) string {
	if s == nil {
		return ""
	}
	if n := utf8.RuneCountInString(text); s.MaxLength != nil && n > *s.MaxLength {
		return fmt.Sprintf(" must have at most %d characters, and has %d", *s.MaxLength, n)
	}
	if text == "" && s.MinLength != nil {
		return " is empty"
	}
	if len(s.Enum) == 0 || slices.Contains(s.Enum, any(text)) {
		return ""
	}
	words := make([]string, len(s.Enum))
	for i, w := range s.Enum {
		words[i] = fmt.Sprint(w)
	}
	return fmt.Sprintf(" must be %s, and is %s", orList(words), ShownValue(text))
}

// orList joins words: a, b, or c.
func orList(words []string) string {
	n := len(words)
	if n < 3 {
		return strings.Join(words, " or ")
	}
	return strings.Join(words[:n-1], ", ") + ", or " + words[n-1]
}

func numberFault(s *jsonschema.Schema, want string, number json.Number) string {
	shown := clip.Bytes(number.String(), maxFaultText)
	f, _ := strconv.ParseFloat(number.String(), 64) // out of range: infinite
	_, err := number.Int64()
	switch {
	case s == nil:
	case s.Maximum != nil && f > *s.Maximum:
		return fmt.Sprintf(" must be at most %d, and is %s", int64(*s.Maximum), shown)
	case s.Minimum != nil && f < *s.Minimum:
		return fmt.Sprintf(" must be at least %d, and is %s", int64(*s.Minimum), shown)
	case want == "integer" && err != nil && (f != math.Trunc(f) || math.Abs(f) > 1<<53):
		return " must be a whole number, and is " + shown
	}
	return ""
}

// countFault describes how the number of items violates a schema.
func countFault(s *jsonschema.Schema, n int) string {
	switch least, most := s.MinItems, s.MaxItems; {
	case least != nil && most != nil && *least == *most && n != *most:
		return fmt.Sprintf(" must have %d items, and has %d", *most, n)
	case most != nil && n > *most:
		return fmt.Sprintf(" must have at most %d items, and has %d", *most, n)
	case least != nil && n < *least:
		return fmt.Sprintf(" must have at least %d items, and has %d", *least, n)
	}
	return ""
}

// ShownValue returns the quoted beginning of a text from a client.
func ShownValue(text string) string {
	return display.Quoted(clip.Bytes(text, maxFaultText))
}
