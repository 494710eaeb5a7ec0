package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"crabmem/bm25/clip"
	"crabmem/daemon/display"
	"crabmem/daemon/op"

	"github.com/google/jsonschema-go/jsonschema"
)

const (
	maxFaults    = 5  // that an error lists
	maxFaultText = 60 // bytes of a value or name in an error
)

// argument is an argument of a call, as the client sent it.
type argument struct {
	name  string
	value json.RawMessage
}

// readArguments returns the members of an object in their order. It returns an
// error if raw is not one object or contains a name twice.
func readArguments(raw json.RawMessage) ([]argument, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("the arguments must be an object")
	}
	var args []argument
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		a := argument{name: t.(string)}
		if err := dec.Decode(&a.value); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(args, func(b argument) bool { return a.name == b.name }) {
			return nil, fmt.Errorf("%s occurs twice", shownValue(a.name))
		}
		args = append(args, a)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("the arguments must be one object")
	}
	return args, nil
}

// checkArguments checks the arguments of a call against the schema. It omits optional
// arguments that are null, and converts text to numbers and booleans. unknown lists
// the names that the schema lacks. The error describes each wrong argument.
func checkArguments(schema *jsonschema.Schema, raw json.RawMessage) (fixed json.RawMessage, unknown []string, err error) {
	args, err := readArguments(raw)
	if err != nil {
		return nil, nil, wrongArguments(err.Error())
	}
	var faults []string
	given := make(map[string]bool)
	kept := args[:0]
	for _, a := range args {
		p, known := schema.Properties[a.name]
		switch {
		case !known:
			unknown = append(unknown, a.name)
		case string(a.value) == "null" && !slices.Contains(schema.Required, a.name):
			continue
		default:
			given[a.name] = true
			a.value = readable(p, a.value)
			faults = append(faults, valueFaults(a.name, p, a.value)...)
		}
		kept = append(kept, a)
	}
	faults = append(nameFaults(schema, given, unknown, len(faults) > 0), faults...)
	if len(faults) > 0 {
		return nil, nil, wrongArguments(faults...)
	}
	return writeArguments(kept), unknown, nil
}

// writeArguments returns args as an object.
func writeArguments(args []argument) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, a := range args {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(a.name) // a string has an encoding
		b.Write(name)
		b.WriteByte(':')
		b.Write(a.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func wrongArguments(faults ...string) error {
	more := ""
	if n := len(faults) - maxFaults; n > 0 {
		faults, more = faults[:maxFaults], fmt.Sprintf("; and %d more", n)
	}
	text := "wrong arguments: " + strings.Join(faults, "; ") + more
	if !strings.HasSuffix(text, "?") {
		text += "."
	}
	return errors.New(text + " Try: follow the input schema of the tool")
}

// nameFaults describes missing arguments, and unknown names that resemble an
// absent argument. With other faults it describes all unknown names.
func nameFaults(schema *jsonschema.Schema, given map[string]bool, unknown []string, all bool) (faults []string) {
	var missing, absent []string
	for _, name := range schema.Required {
		if !given[name] {
			missing = append(missing, name)
			faults = append(faults, name+" is missing")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if !given[name] {
			absent = append(absent, name)
		}
	}
	for _, name := range unknown {
		near := op.NearestName(name, absent)
		if near == "" && len(missing) == 1 && len(unknown) == 1 {
			near = missing[0]
		}
		switch {
		case near != "":
			faults = append(faults, fmt.Sprintf("unknown argument %s; did you mean %s?", shownValue(name), near))
		case all || len(missing) > 0:
			faults = append(faults, fmt.Sprintf("unknown argument %s; %s", shownValue(name), namesOf(schema)))
		}
	}
	return faults
}

// namesOf returns a sentence that lists the arguments of a tool.
func namesOf(schema *jsonschema.Schema) string {
	names := slices.Sorted(maps.Keys(schema.Properties))
	if len(names) == 0 {
		return "the tool has no arguments"
	}
	return "the arguments are " + strings.Join(names, ", ")
}

// readable returns v, or the number or boolean in v if v is a text and the schema
// requires a number or a boolean.
func readable(s *jsonschema.Schema, v json.RawMessage) json.RawMessage {
	var text string
	switch s.Type {
	case "integer", "number", "boolean":
		if json.Unmarshal(v, &text) != nil {
			return v
		}
		text = strings.TrimSpace(text)
		var x any
		if json.Unmarshal([]byte(text), &x) != nil {
			return v
		}
		if _, ok := x.(bool); ok == (s.Type == "boolean") && typeOf(json.RawMessage(text)) != "text" {
			return json.RawMessage(text)
		}
	case "array":
		var items []json.RawMessage
		if s.Items == nil || json.Unmarshal(v, &items) != nil {
			return v
		}
		changed := false
		for i, item := range items {
			items[i] = readable(s.Items, item)
			changed = changed || !bytes.Equal(items[i], item)
		}
		if changed {
			v, _ = json.Marshal(items) // of valid values
		}
	}
	return v
}

// typeOf describes the type of a JSON value for an error.
func typeOf(v json.RawMessage) string {
	switch v = bytes.TrimSpace(v); {
	case len(v) == 0 || v[0] == 'n':
		return "null"
	case v[0] == '"':
		return "text"
	case v[0] == '{':
		return "an object"
	case v[0] == '[':
		return "a list"
	case v[0] == 't' || v[0] == 'f':
		return "true or false"
	}
	return "a number"
}

// wordsOf describes the types of schemas for an error.
var wordsOf = map[string]string{
	"string": "text", "object": "an object", "array": "a list", "boolean": "true or false", "number": "a number", "integer": "a whole number",
}

// valueFaults describes how a value violates its schema. at names the value.
func valueFaults(at string, s *jsonschema.Schema, v json.RawMessage) []string {
	want, got := wordsOf[s.Type], typeOf(v)
	if want != "" && got != want && !(s.Type == "integer" && got == "a number") {
		if got == "text" {
			var text string
			_ = json.Unmarshal(v, &text) // the message was valid JSON
			got += " " + shownValue(text)
		}
		return []string{at + " must be " + want + ", and is " + got}
	}
	switch s.Type {
	case "string":
		return textFaults(at, s, v)
	case "integer", "number":
		return numberFaults(at, s, v)
	case "array":
		return listFaults(at, s, v)
	case "object":
		return objectFaults(at, s, v)
	}
	return nil
}

func textFaults(at string, s *jsonschema.Schema, v json.RawMessage) []string {
	var text string
	_ = json.Unmarshal(v, &text)
	if n := utf8.RuneCountInString(text); s.MaxLength != nil && n > *s.MaxLength {
		return []string{fmt.Sprintf("%s must have at most %d characters, and has %d", at, *s.MaxLength, n)}
	}
	if len(s.Enum) == 0 || slices.Contains(s.Enum, any(text)) {
		return nil
	}
	words := make([]string, len(s.Enum))
	for i, w := range s.Enum {
		words[i] = fmt.Sprint(w)
	}
	return []string{fmt.Sprintf("%s must be %s, and is %s", at, orList(words), shownValue(text))}
}

// orList joins words: a, b, or c.
func orList(words []string) string {
	switch n := len(words); n {
	case 0, 1:
		return strings.Join(words, "")
	case 2:
		return words[0] + " or " + words[1]
	default:
		return strings.Join(words[:n-1], ", ") + ", or " + words[n-1]
	}
}

func numberFaults(at string, s *jsonschema.Schema, v json.RawMessage) []string {
	shown := clip.Bytes(string(v), maxFaultText)
	f, _ := strconv.ParseFloat(string(v), 64) // out of range: infinite
	switch {
	case s.Maximum != nil && f > *s.Maximum:
		return []string{fmt.Sprintf("%s must be at most %v, and is %s", at, int64(*s.Maximum), shown)}
	case s.Minimum != nil && f < *s.Minimum:
		return []string{fmt.Sprintf("%s must be at least %v, and is %s", at, int64(*s.Minimum), shown)}
	case s.Type == "integer" && (f != math.Trunc(f) || math.Abs(f) > 1<<53):
		return []string{at + " must be a whole number, and is " + shown}
	}
	return nil
}

func listFaults(at string, s *jsonschema.Schema, v json.RawMessage) (faults []string) {
	var items []json.RawMessage
	_ = json.Unmarshal(v, &items)
	n := len(items)
	if least, most := s.MinItems, s.MaxItems; least != nil && most != nil && *least == *most && n != *most {
		return []string{fmt.Sprintf("%s must have %d items, and has %d", at, *most, n)}
	} else if most != nil && n > *most {
		return []string{fmt.Sprintf("%s must have at most %d items, and has %d", at, *most, n)}
	} else if least != nil && n < *least {
		return []string{fmt.Sprintf("%s must have at least %d items, and has %d", at, *least, n)}
	}
	for i, item := range items {
		if s.Items != nil && len(faults) <= maxFaults {
			faults = append(faults, valueFaults(fmt.Sprintf("%s[%d]", at, i), s.Items, item)...)
		}
	}
	return faults
}

func objectFaults(at string, s *jsonschema.Schema, v json.RawMessage) (faults []string) {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(v, &members)
	for _, name := range s.Required {
		if _, ok := members[name]; !ok {
			faults = append(faults, at+"."+name+" is missing")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if value, ok := members[name]; ok {
			faults = append(faults, valueFaults(at+"."+name, s.Properties[name], value)...)
		}
	}
	return faults
}

// shownValue returns the quoted beginning of a text from a client.
func shownValue(text string) string {
	return display.Quoted(clip.Bytes(text, maxFaultText))
}
