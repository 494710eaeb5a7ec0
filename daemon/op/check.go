package op

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"crabmem/crmem"

	"github.com/google/jsonschema-go/jsonschema"
)

// MaxFaults is how many faults an error lists.
const MaxFaults = 5

const (
	maxFaultText = 60 // bytes of a value or name in an error
	maxDepth     = 64 // open objects and lists
	// maxListed limits each list in a body, so that a list of millions is refused at the
	// first item too many.
	maxListed = crmem.MaxAliases
)

// CheckBody returns an error for a text that is not one JSON object, is nested too deep, or
// has a key twice, which programs read in different ways. If s is set, the text must also
// have the shape that s describes: package encoding/json accepts a missing field, null, and
// a key in other letters.
func CheckBody(b []byte, s *jsonschema.Schema) error {
	if !utf8.Valid(b) {
		return errors.New("want UTF-8")
	}
	_, err := (&checker{noun: "field"}).read(b, s)
	return err
}

// FixArguments checks the arguments of a tool, and describes each wrong one. fixed has
// the values that s requires in place of those that a client means by other ones. Unknown
// arguments are missing, and so are optional ones that can only mean absent ones. notes
// name the unknown arguments, and numbers that were above a maximum.
func FixArguments(b []byte, s *jsonschema.Schema) (fixed json.RawMessage, notes, faults []string) {
	c := &checker{noun: "argument", lenient: true}
	v, err := c.read(b, s)
	if err == nil && len(c.faults) == 0 {
		fixed, err = json.Marshal(v)
	}
	if err != nil {
		return nil, nil, []string{err.Error()}
	}
	if len(c.unknown) > 0 && len(c.faults) == 0 {
		var shown []string
		for _, name := range c.unknown[:min(len(c.unknown), MaxFaults)] {
			shown = append(shown, ShownValue(name))
		}
		c.notes = append(c.notes, "ignored unknown arguments: "+strings.Join(shown, ", ")+"; "+NamesOf(s, c.noun))
	}
	return fixed, c.notes, c.faults
}

// checker checks the values that a decoder reads.
type checker struct {
	d    *json.Decoder
	noun string // of a member of the object
	// lenient keeps the values, collects the faults, and accepts what FixArguments says.
	// Otherwise, the first fault is an error.
	lenient bool
	faults  []string
	unknown []string // members of the object that its schema lacks
	notes   []string // numbers that were above a maximum
	nested  bool     // d reads a text in which a decoder may replace escapes
}

// read checks a text, and returns its value if c is lenient.
func (c *checker) read(b []byte, s *jsonschema.Schema) (any, error) {
	if b = bytes.TrimSpace(b); c.lenient {
		b = c.outer(b)
	}
	if len(b) == 0 || b[0] != '{' {
		return nil, fmt.Errorf("the %ss must be an object", c.noun)
	}
	c.d = json.NewDecoder(bytes.NewReader(b))
	c.d.UseNumber()
	v, err := c.value(s, "", true, 0)
	if err != nil {
		return nil, err
	}
	if _, err := c.d.Token(); err != io.EOF {
		return nil, fmt.Errorf("the %ss must be one object", c.noun)
	}
	return v, nil
}

// token returns the next token.
func (c *checker) token() (json.Token, error) {
	t, err := c.d.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		err = errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if text, ok := t.(string); ok && c.nested && strings.ContainsRune(text, utf8.RuneError) {
		err = errors.New("lone surrogate in JSON text: send complete characters")
	}
	return t, err
}

// add adds a fault, or returns it as an error.
func (c *checker) add(fault string) error {
	if !c.lenient {
		return errors.New(fault)
	}
	c.faults = append(c.faults, fault)
	return nil
}

// value checks the next value, and returns it if c is lenient. s is its schema; nil
// accepts any. at is the path of the value for messages.
func (c *checker) value(s *jsonschema.Schema, at string, required bool, depth int) (any, error) {
	t, err := c.token()
	if err != nil {
		return nil, err
	}
	want := kindOf(s)
	if c.lenient {
		if text, ok := t.(string); ok && encodes(text, want) {
			return c.decode(text, s, at, required, depth)
		}
		if empty, err := c.isEmpty(want, t, required); empty {
			return nil, err
		}
		t = c.coerce(s, want, t, at, required)
	}
	if t == nil && !required && (c.lenient || want == "" || slices.Contains(s.Types, "null")) {
		return nil, nil
	}
	if fault := scalarFault(s, want, t); fault != "" {
		if err := c.add(at + fault); err != nil {
			return nil, err
		}
		s, want = nil, ""
	}
	open, ok := t.(json.Delim)
	if !ok {
		return t, nil
	}
	if depth == maxDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxDepth)
	}
	if want == "" {
		s = &jsonschema.Schema{AdditionalProperties: &jsonschema.Schema{}}
	}
	var v any
	if open == '{' {
		v, err = c.object(s, at, depth+1)
	} else {
		v, err = c.list(s, at, required, depth+1)
	}
	if err == nil {
		_, err = c.token() // the end
	}
	return v, err
}

func (c *checker) list(s *jsonschema.Schema, at string, required bool, depth int) (any, error) {
	list, first, items := []any{}, len(c.faults), s.Items
	n := 0
	for ; c.d.More(); n++ {
		one := at
		switch {
		case !c.lenient && kindOf(s) != "" && n == maxListed:
			return nil, fmt.Errorf("%s: more than %d items", at, maxListed)
		case len(c.faults) > first+MaxFaults:
			items = nil
		case items != nil:
			one = fmt.Sprintf("%s[%d]", at, n)
		}
		full := items != nil && items.MinLength != nil // without empty texts
		v, err := c.value(items, one, !full || !c.lenient, depth)
		if err != nil {
			return nil, err
		}
		if c.lenient && (v != nil || !full) {
			list = append(list, v)
		}
	}
	if c.lenient && !required && len(list) == 0 && (n > 0 || s.MinItems != nil && *s.MinItems > 0) {
		return nil, nil
	}
	if c.lenient {
		n = len(list)
	}
	if fault := countFault(s, n); fault != "" {
		c.faults = c.faults[:first]
		return list, c.add(at + fault)
	}
	return list, nil
}

func (c *checker) object(s *jsonschema.Schema, at string, depth int) (any, error) {
	m, seen, given, first := make(map[string]any), make(map[string]bool), make(map[string]bool), len(c.faults)
	more := s.AdditionalProperties
	open := more != nil && more.Not == nil // a map
	var unknown []string
	for c.d.More() {
		t, err := c.token()
		if err != nil {
			return nil, err
		}
		key := t.(string) // else the decoder returns an error
		folded := key
		if !c.lenient {
			folded = strings.ToLower(key) // as encoding/json compares keys
		}
		if seen[folded] && (!c.lenient || depth == 1) {
			return nil, fmt.Errorf("%s occurs twice", ShownValue(key))
		}
		seen[folded] = true
		p, known := s.Properties[key]
		required := slices.Contains(s.Required, key)
		switch {
		case known:
		case open:
			p, required = more, true
		case !c.lenient:
			fault, _ := c.unknownFault(key, s, given, "")
			return nil, errors.New(fault)
		default:
			unknown = append(unknown, key)
		}
		v, err := c.value(p, strings.TrimPrefix(at+"."+key, "."), required, depth)
		if err != nil {
			return nil, err
		}
		if known || open {
			given[key] = v != nil || required || !c.lenient
			if c.lenient && given[key] {
				m[key] = v
			}
		}
	}
	faults := c.nameFaults(s, at, given, unknown, len(c.faults) > first)
	if len(faults) > 0 && !c.lenient {
		return nil, errors.New(faults[0])
	}
	c.faults = slices.Insert(c.faults, first, faults...)
	return m, nil
}

// nameFaults describes missing members and, of the outer object, unknown names that resemble
// an absent one. With other faults it describes all unknown names.
func (c *checker) nameFaults(s *jsonschema.Schema, at string, given map[string]bool, unknown []string, all bool) (faults []string) {
	missing := slices.DeleteFunc(slices.Clone(s.Required), func(name string) bool { return given[name] })
	for _, name := range missing {
		faults = append(faults, strings.TrimPrefix(at+"."+name, ".")+" is missing")
	}
	if at != "" {
		return faults
	}
	c.unknown = unknown
	meant := ""
	if len(missing) == 1 && len(unknown) == 1 {
		meant = missing[0]
	}
	for _, name := range unknown {
		if fault, near := c.unknownFault(name, s, given, meant); near || all || len(missing) > 0 {
			faults = append(faults, fault)
		}
	}
	return faults
}

// unknownFault describes an unknown name, and the absent one that it resembles or else
// meant. near is false if there is none.
func (c *checker) unknownFault(name string, s *jsonschema.Schema, given map[string]bool, meant string) (fault string, near bool) {
	absent := slices.DeleteFunc(slices.Sorted(maps.Keys(s.Properties)), func(name string) bool { return given[name] })
	if meant = cmp.Or(NearestName(name, absent), meant); meant != "" {
		return fmt.Sprintf("unknown %s %s; did you mean %s?", c.noun, ShownValue(name), meant), true
	}
	return fmt.Sprintf("unknown %s %s; %s", c.noun, ShownValue(name), NamesOf(s, c.noun)), false
}

// NamesOf returns a sentence that lists the members of an object, which are called noun.
func NamesOf(s *jsonschema.Schema, noun string) string {
	names := slices.Sorted(maps.Keys(s.Properties))
	if len(names) == 0 {
		return "the tool has no " + noun + "s"
	}
	return "the " + noun + "s are " + strings.Join(names, ", ")
}
