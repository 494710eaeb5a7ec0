package gateway

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// defaultSize is the limit of a parameter, in bytes.
const defaultSize = 1024

// param is a parameter of the query.
type param struct {
	name, summary string
	kind          string   // string, integer, or boolean
	words         []string // if set, the only values
	most          int      // of an integer; the least is 0
	size          int      // of a string, in bytes; 0: 1024
	required      bool
}

// checkQuery checks the parameters of the query against the route.
func (c *call) checkQuery() *Problem {
	known := make(map[string]*param)
	for i := range c.route.query {
		known[c.route.query[i].name] = &c.route.query[i]
	}
	for name, values := range c.query {
		p := known[name]
		switch {
		case p == nil:
			return invalidf("unknown parameter %q", printable(name))
		case len(values) != 1:
			return invalidf("the parameter %s occurs %d times", name, len(values))
		}
		if err := p.check(values[0]); err != nil {
			return invalidf("the parameter %s: %v", name, err)
		}
	}
	for name, p := range known {
		if p.required && !c.query.Has(name) {
			return invalidf("the parameter %s is missing", name)
		}
	}
	return nil
}

func (p *param) check(value string) error {
	size := p.size
	if size == 0 {
		size = defaultSize
	}
	switch {
	case !utf8.ValidString(value) || len(value) > size:
		return fmt.Errorf("want UTF-8 of at most %d bytes", size)
	case p.kind == "integer":
		if n, err := strconv.ParseUint(value, 10, 53); err != nil || p.most > 0 && n > uint64(p.most) {
			return errors.New("want " + p.wants())
		}
	case p.kind == "boolean" && value != "true" && value != "false":
		return errors.New("want true or false")
	case len(p.words) > 0:
		for _, w := range p.words {
			if value == w {
				return nil
			}
		}
		return errors.New("want " + strings.Join(p.words, " or "))
	}
	return nil
}

func (p *param) wants() string {
	if p.most > 0 {
		return fmt.Sprintf("a number from 0 to %d", p.most)
	}
	return "a number below 2^53"
}

// positive returns the number of a part of a path. A number has one form.
func positive(text string) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 53)
	return n, err == nil && n > 0 && text[0] != '0' && text[0] != '+'
}

// text returns a parameter, which the route declares.
func (c *call) text(name string) string { return c.query.Get(name) }

// number returns a parameter, or absent if the request has none.
func (c *call) number(name string, absent uint64) uint64 {
	if n, err := strconv.ParseUint(c.query.Get(name), 10, 53); err == nil {
		return n
	}
	return absent
}
