package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const maxFront = 64 << 10

// splitFront splits a file into front matter and the rest. A file that does not
// begin with a line of three hyphens has no front matter.
func splitFront(text string) (*table, string, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	first, rest, ok := strings.Cut(text, "\n")
	if !ok || strings.TrimRight(first, " \t\r") != "---" {
		return nil, text, nil
	}
	for end := 0; end < len(rest); {
		n := strings.IndexByte(rest[end:], '\n')
		next := end + n + 1
		if n < 0 {
			next = len(rest)
		}
		if strings.TrimRight(rest[end:next], " \t\r\n") == "---" {
			front, err := parseFront(rest[:end])
			return front, rest[next:], err
		}
		if next > maxFront {
			return nil, "", &lineError{1, fmt.Sprintf("the front matter has more than %d bytes, or no closing ---", maxFront)}
		}
		end = next
	}
	return nil, "", &lineError{1, "the front matter has no closing ---"}
}

var yamlLine = lazyRegexp(`^(?:yaml: )?(?:unmarshal errors:\s+)?(?:line (\d+): )?(.*)`)

// parseFront parses front matter, whose first line is the second of its file.
func parseFront(text string) (*table, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		m := yamlLine().FindStringSubmatch(err.Error())
		line, _ := strconv.Atoi(m[1])
		message := m[2]
		if strings.Contains(message, "mapping values are not allowed") {
			message += "; put a value with a colon in quotes"
		}
		return nil, &lineError{line + 1, message}
	}
	if len(doc.Content) == 0 {
		return &table{line: 1}, nil
	}
	v, err := yamlValue(doc.Content[0], 0)
	if err != nil {
		return nil, err
	}
	t, ok := v.v.(*table)
	if !ok {
		if v.v == nil {
			return &table{line: 1}, nil
		}
		return nil, &lineError{v.line, "the front matter: got " + kindOf(v.v) + ", want a table of keys"}
	}
	t.line = 1
	return t, nil
}

// yamlValue converts a node to the value of an equivalent TOML file. It returns
// an error for anchors and aliases.
func yamlValue(n *yaml.Node, depth int) (value, error) {
	line := n.Line + 1
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return value{}, &lineError{line, "the front matter must not contain YAML anchors or aliases"}
	}
	if depth > 8 {
		return value{}, &lineError{line, "the front matter is nested too deeply"}
	}
	switch n.Kind {
	case yaml.ScalarNode:
		return yamlScalar(n, line)
	case yaml.SequenceNode:
		list := make([]value, len(n.Content))
		for i, e := range n.Content {
			v, err := yamlValue(e, depth+1)
			if err != nil {
				return value{}, err
			}
			list[i] = v
		}
		return value{line, list}, nil
	case yaml.MappingNode:
		t := &table{line: line, keys: make(map[string]value)}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if k.Kind != yaml.ScalarNode || k.Anchor != "" {
				return value{}, &lineError{k.Line + 1, "a key of the front matter is not a word"}
			}
			if _, twice := t.keys[k.Value]; twice {
				return value{}, &lineError{k.Line + 1, fmt.Sprintf("duplicate key '%s'", short(k.Value))}
			}
			v, err := yamlValue(n.Content[i+1], depth+1)
			if err != nil {
				return value{}, err
			}
			if v.v == nil && k.Value == "tools" {
				v.v = []value{} // a list without items, which permits no tool
			}
			if v.v == nil { // "key:" is a key without a value
				continue
			}
			t.keys[k.Value] = value{k.Line + 1, v.v}
		}
		return value{line, t}, nil
	}
	return value{}, &lineError{line, "the front matter has a value of an unknown type"}
}

func yamlScalar(n *yaml.Node, line int) (value, error) {
	var v any
	var err error
	switch n.ShortTag() {
	case "!!null":
	case "!!bool":
		var b bool
		err = n.Decode(&b)
		v = b
	case "!!int":
		var i int64
		err = n.Decode(&i)
		v = i
	case "!!float":
		var f float64
		err = n.Decode(&f)
		v = f
	case "!!str":
		v = n.Value
	default:
		v = errors.ErrUnsupported
	}
	if err != nil {
		return value{}, &lineError{line, fmt.Sprintf("'%s' is not a value", short(n.Value))}
	}
	return value{line, v}, nil
}
