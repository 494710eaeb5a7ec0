package mcpclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"crabmem/daemon/display"

	"github.com/tailscale/hujson"
)

// jsonc is JSON with comments and commas before closing brackets, as VS Code and
// Zed read it.
type jsonc struct{}

func (jsonc) decode(text []byte) (map[string]any, error) {
	f, err := parseJSON(text)
	v := make(map[string]any)
	if err != nil || f.value.Value == nil {
		return v, err
	}
	f.value.Standardize()
	dec := json.NewDecoder(bytes.NewReader(f.value.Pack()))
	dec.UseNumber()
	return v, dec.Decode(&v)
}

func (jsonc) set(text []byte, path []string, name string, fields []field) ([]byte, error) {
	f, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	path = append(slices.Clone(path), name)
	if f.value.Value == nil {
		// Comments stay before the object.
		if n := len(text); n > 0 && text[n-1] != '\n' && len(bytes.TrimSpace(text)) > 0 {
			text = append(bytes.Clone(text), '\n')
		}
		return fmt.Appendf(bytes.Clone(text), "%s\n", render(nest(fields, path), "", "  ", "\n", false)), nil
	}
	object, depth, err := f.object(path...)
	if err != nil {
		return nil, err
	}
	if depth < len(path) {
		err = f.put(object, path[depth], nest(fields, path[depth+1:]))
		return f.pack(), err
	}
	old, err := jsonc{}.decode(text)
	for _, field := range changed(cut(old, path...), fields) {
		err = errors.Join(err, f.put(object, field.name, field.value))
	}
	return f.pack(), err
}

// nest returns the fields as a member of a member, by names.
func nest(fields []field, path []string) []field {
	for _, name := range slices.Backward(path) {
		fields = []field{{name: name, value: fields}}
	}
	return fields
}

func (jsonc) remove(text []byte, path []string, name string) ([]byte, error) {
	f, err := parseJSON(text)
	if err != nil || f.value.Value == nil {
		return text, err
	}
	servers, depth, err := f.object(path...)
	if err != nil || depth < len(path) {
		return text, err
	}
	o := servers.Value.(*hujson.Object)
	i, err := f.find(o, name)
	if err == nil && i >= 0 {
		f.drop(o, i)
	}
	return f.pack(), err
}

// jsonFile is a parsed file. Its value is unset if the file is empty.
type jsonFile struct {
	text     []byte // with a line end
	value    hujson.Value
	nl, unit string // line end, and indentation of one level
}

const maxDepth = 10_000 // of nested brackets

func parseJSON(text []byte) (*jsonFile, error) {
	f := &jsonFile{nl: "\n", unit: "  "}
	if bytes.Contains(text, []byte("\r\n")) {
		f.nl = "\r\n"
	}
	f.text = slices.Concat(text, []byte("\n")) // the parser requires the end of a last comment
	if hujson.Extra(f.text).IsValid() {
		return f, nil
	}
	depth := 0
	for i, c := range f.text {
		switch c {
		case '{', '[':
			if depth++; depth > maxDepth {
				return nil, f.syntaxError(i, errors.New("brackets are nested too deeply"))
			}
		case '}', ']':
			depth--
		}
	}
	var err error
	if f.value, err = hujson.Parse(f.text); err != nil {
		e := &SyntaxError{Err: errors.Unwrap(err)}
		_, _ = fmt.Sscanf(err.Error(), "hujson: line %d,", &e.Line) // each of its errors has a line
		e.Line = min(e.Line, bytes.Count(f.text, []byte("\n")))
		return nil, e
	}
	emptyNull(&f.value)
	root, ok := f.value.Value.(*hujson.Object)
	if !ok {
		return nil, f.syntaxError(0, errors.New("the file is not a JSON object"))
	}
	if len(root.Members) > 0 {
		if indent, ok := ownLine(&root.Members[0]); ok && indent != "" {
			f.unit = indent
		}
	}
	return f, nil
}

// emptyNull replaces null by an empty object.
func emptyNull(v *hujson.Value) {
	if v.Value.Kind() == 'n' {
		v.Value = &hujson.Object{}
	}
}

func (f *jsonFile) pack() []byte { return bytes.TrimSuffix(f.value.Pack(), []byte("\n")) }

func (f *jsonFile) syntaxError(at int, err error) error {
	return &SyntaxError{Line: 1 + bytes.Count(f.text[:at], []byte{'\n'}), Err: err}
}

// object returns the object at a path. If a member is missing, it returns the last object
// found. depth is the number of members found.
func (f *jsonFile) object(path ...string) (v *hujson.Value, depth int, err error) {
	v = &f.value
	for depth, name := range path {
		o := v.Value.(*hujson.Object)
		i, err := f.find(o, name)
		if err != nil || i < 0 {
			return v, depth, err
		}
		m := &o.Members[i]
		emptyNull(&m.Value)
		if m.Value.Value.Kind() != '{' {
			return v, depth, f.syntaxError(m.Name.StartOffset, fmt.Errorf("%q is not an object", name))
		}
		v = &m.Value
	}
	return v, len(path), nil
}

// find returns the index of the member with a name, or -1. It returns an error if two
// members have the name.
func (f *jsonFile) find(o *hujson.Object, name string) (int, error) {
	found := -1
	for i := range o.Members {
		m := &o.Members[i]
		if m.Name.Value.(hujson.Literal).String() != name {
			continue
		}
		if found >= 0 {
			return -1, f.syntaxError(m.Name.StartOffset, fmt.Errorf("%q occurs twice", name))
		}
		found = i
	}
	return found, nil
}

// ownLine returns the indentation of a member. ok is false if another token is before it
// on its line.
func ownLine(m *hujson.ObjectMember) (indent string, ok bool) {
	at := bytes.LastIndexByte(m.Name.BeforeExtra, '\n') + 1
	indent = string(m.Name.BeforeExtra[at:])
	return indent, at > 0 && strings.TrimSpace(indent) == ""
}

// cutLine divides the text between two tokens at the first line end that is not in a
// comment.
func cutLine(extra hujson.Extra) (line, rest hujson.Extra) {
	for i, c := range extra {
		if c == '\n' && extra[:i+1].IsValid() {
			line = bytes.TrimSuffix(extra[:i], []byte("\r"))
			return line, extra[len(line):]
		}
	}
	return nil, extra
}

// put sets the member name of an object. v is a string, a list of strings, or fields.
func (f *jsonFile) put(object *hujson.Value, name string, v any) error {
	o := object.Value.(*hujson.Object)
	i, err := f.find(o, name)
	if err != nil {
		return err
	}
	if i >= 0 { // fields are only put where they are missing
		o.Members[i].Value.Value = hujson.Literal(render(v, "", "", "", true))
		return nil
	}
	f.add(object, o, hujson.String(name), v)
	return nil
}

// add adds a member to the members o of an object, or of a list.
func (f *jsonFile) add(object *hujson.Value, o *hujson.Object, name hujson.ValueTrimmed, v any) {
	line := f.text[bytes.LastIndexByte(f.text[:object.StartOffset], '\n')+1:]
	outer := string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
	indent, compact := outer+f.unit, false
	before := f.nl + indent
	var trailing hujson.Extra // if not nil, a comma follows
	if n := len(o.Members); n > 0 {
		last := &o.Members[n-1]
		if trailing = last.Value.AfterExtra; trailing != nil {
			trailing = hujson.Extra{}
		}
		if indent, compact = ownLine(last); compact {
			var comment hujson.Extra // on the line of the last member, where it stays
			comment, o.AfterExtra = cutLine(o.AfterExtra)
			before = string(comment) + f.nl + indent
		} else {
			before = " "
		}
		compact = !compact
	} else if len(bytes.TrimSpace(o.AfterExtra)) == 0 {
		o.AfterExtra = hujson.Extra(f.nl + outer)
	}
	o.Members = append(o.Members, hujson.ObjectMember{
		Name: hujson.Value{BeforeExtra: hujson.Extra(before), Value: name},
		Value: hujson.Value{BeforeExtra: hujson.Extra(" "), AfterExtra: trailing,
			Value: hujson.Literal(render(v, indent, f.unit, f.nl, compact))},
	})
}

// drop removes the member i from an object.
func (f *jsonFile) drop(o *hujson.Object, i int) {
	m, n := o.Members[i], len(o.Members)
	kept := m.Name.BeforeExtra
	if _, ok := ownLine(&m); ok {
		kept = bytes.TrimSuffix(kept[:bytes.LastIndexByte(kept, '\n')], []byte("\r"))
	} else {
		kept = bytes.TrimRight(kept, " \t")
	}
	o.Members = slices.Delete(o.Members, i, i+1)
	switch {
	case i < n-1:
		next := &o.Members[i].Name
		next.BeforeExtra = slices.Concat(kept, next.BeforeExtra)
		return
	case i > 0:
		last := &o.Members[i-1].Value
		if m.Value.AfterExtra == nil { // the comma before the member goes, too
			kept, last.AfterExtra = slices.Concat(last.AfterExtra, kept), nil
		} else {
			last.AfterExtra = append(hujson.Extra{}, last.AfterExtra...)
		}
	}
	o.AfterExtra = slices.Concat(kept, o.AfterExtra)
	if n == 1 && len(bytes.TrimSpace(o.AfterExtra)) == 0 {
		o.AfterExtra = nil
	}
}

// render returns a value as JSON, for a line with an indentation.
func render(v any, indent, unit, nl string, compact bool) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case json.Number:
		return v.String()
	case []any:
		if len(v) == 1 && !compact { // hooks
			if item, ok := v[0].([]field); ok {
				return "[" + nl + indent + unit + render(item, indent+unit, unit, nl, false) + nl + indent + "]"
			}
		}
		items := make([]string, len(v))
		for i, s := range v {
			items[i] = render(s, "", "", "", true)
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	var b strings.Builder
	fields := v.([]field)
	b.WriteString("{")
	for i, f := range fields {
		if i > 0 {
			b.WriteString(",")
		}
		if compact && i > 0 {
			b.WriteString(" ")
		} else if !compact {
			b.WriteString(nl + indent + unit)
		}
		b.WriteString(quote(f.name) + ": " + render(f.value, indent+unit, unit, nl, compact))
	}
	if !compact {
		b.WriteString(nl + indent)
	}
	return b.String() + "}"
}

func quote(s string) string {
	text, _ := display.JSON(s) // a string has an encoding
	return string(text)
}
