package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"crabmem/daemon/op"
)

// defaultSize is the limit of a parameter, in bytes.
const defaultSize = 1024

// checkQuery checks the parameters of the query against the route.
func (c *call) checkQuery() *Problem {
	known := c.route.query
	for name, values := range c.query {
		i := slices.IndexFunc(known, func(f op.Field) bool { return f.Name == name })
		switch {
		case i < 0:
			return invalidf("unknown parameter %q", printable(name))
		case len(values) != 1:
			return invalidf("the parameter %s occurs %d times", name, len(values))
		}
		if err := checkParam(&known[i], values[0]); err != nil {
			return invalidf("the parameter %s: %v", name, err)
		}
	}
	for i := range known {
		if f := &known[i]; mustSet(f) && !c.query.Has(f.Name) {
			return invalidf("the parameter %s is missing", f.Name)
		}
	}
	return nil
}

// mustSet reports whether a request must have the parameter.
func mustSet(f *op.Field) bool { return f.Required && f.Default == "" }

// kindOf returns the type of a parameter in JSON Schema.
func kindOf(f *op.Field) string {
	switch t := elemOf(f.Type); {
	case op.IsText(t):
		return "string"
	case t.Kind() == reflect.Bool:
		return "boolean"
	}
	return "integer"
}

func checkParam(f *op.Field, value string) error {
	size := cmp.Or(f.Size, defaultSize)
	kind := kindOf(f)
	switch {
	case !utf8.ValidString(value) || len(value) > size:
		return fmt.Errorf("want UTF-8 of at most %d bytes", size)
	case kind == "integer":
		if n, err := strconv.ParseUint(value, 10, 53); f.Max > 0 && (err != nil || n > uint64(f.Max)) {
			return fmt.Errorf("want a number from 0 to %d", f.Max)
		} else if err != nil {
			return errors.New("want a number below 2^53")
		}
	case kind == "boolean" && value != "true" && value != "false":
		return errors.New("want true or false")
	case len(f.Words) > 0 && !slices.Contains(f.Words, value):
		return errors.New("want " + strings.Join(f.Words, " or "))
	}
	return nil
}

// text returns a parameter, which the route declares.
func (c *call) text(name string) string { return c.query.Get(name) }

// number returns a parameter, or 0 if the request has none.
func (c *call) number(name string) uint64 {
	n, _ := strconv.ParseUint(c.query.Get(name), 10, 53) // it was checked
	return n
}
