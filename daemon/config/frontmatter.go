package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"crabmem/crmem/metadata"
	"crabmem/daemon/lazyregexp"

	"go.yaml.in/yaml/v3"
)

const maxFront = 64 << 10

// splitFront splits a file into front matter and the rest. A file that does not
// begin with a line of three hyphens has no front matter.
func splitFront(text string) (front source, rest string, err error) {
	text = strings.TrimPrefix(text, "\ufeff")
	open, lines, _, rest, ok := metadata.Split(text)
	switch {
	case !strings.HasSuffix(open, "\n"):
		return front, text, nil
	case ok && len(lines) <= maxFront:
		front, err = parseFront(lines)
		return front, rest, err
	case len(text) > maxFront:
		return front, "", &lineError{1, fmt.Sprintf("the front matter has more than %d bytes, or no closing ---", maxFront)}
	}
	return front, "", &lineError{1, "the front matter has no closing ---"}
}

var yamlLine = lazyregexp.New(`^(?:yaml: )?(?:unmarshal errors:\s+)?(?:line (\d+): )?(.*)`)

// parseFront parses front matter, whose first line is the second of its file.
func parseFront(text string) (source, error) {
	s := source{tree{}, make(map[string]int)}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		m := yamlLine().FindStringSubmatch(err.Error())
		line, _ := strconv.Atoi(m[1])
		message := m[2]
		if strings.Contains(message, "mapping values are not allowed") {
			message += "; put a value with a colon in quotes"
		}
		return s, &lineError{line + 1, message}
	}
	if len(doc.Content) == 0 {
		return s, nil
	}
	v, err := s.fromYAML("", doc.Content[0], 0)
	if err != nil || v == nil {
		return s, err
	}
	t, ok := v.(tree)
	if !ok {
		return s, &lineError{doc.Content[0].Line + 1, "the front matter: got " + kindOf(v) + ", want a table of keys"}
	}
	s.tree = t
	return s, nil
}

// fromYAML converts a node to the value of an equivalent TOML file, and notes the lines
// in it. It returns an error for anchors and aliases.
func (s *source) fromYAML(path string, n *yaml.Node, depth int) (any, error) {
	line := n.Line + 1
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return nil, &lineError{line, "the front matter must not contain YAML anchors or aliases"}
	}
	if depth > 8 {
		return nil, &lineError{line, "the front matter is nested too deeply"}
	}
	switch n.Kind {
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, e := range n.Content {
			item := path + "\x00" + strconv.Itoa(i)
			s.lines[item] = e.Line + 1
			var err error
			if list[i], err = s.fromYAML(item, e, depth+1); err != nil {
				return nil, err
			}
		}
		return list, nil
	case yaml.MappingNode:
		return s.mapping(path, n, depth)
	}
	switch n.ShortTag() {
	case "!!null", "!!bool", "!!int", "!!float", "!!str":
	default:
		return errors.ErrUnsupported, nil // which no key has
	}
	var v any
	err := n.Decode(&v)
	if i, ok := v.(int); ok {
		return int64(i), nil
	}
	if _, large := v.(uint64); large || err != nil {
		return nil, &lineError{line, fmt.Sprintf("'%s' is not a value", short(n.Value))}
	}
	return v, nil
}

func (s *source) mapping(path string, n *yaml.Node, depth int) (any, error) {
	t := make(tree)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode || k.Anchor != "" {
			return nil, &lineError{k.Line + 1, "a key of the front matter is not a word"}
		}
		if _, twice := t[k.Value]; twice {
			return nil, &lineError{k.Line + 1, fmt.Sprintf("duplicate key '%s'", short(k.Value))}
		}
		at := path + "\x00" + k.Value
		v, err := s.fromYAML(at, n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		if v == nil && k.Value == "tools" {
			v = []any{} // a list without items, which permits no tool
		}
		if v != nil { // "key:" is a key without a value
			s.lines[at], t[k.Value] = k.Line+1, v
		}
	}
	return t, nil
}
