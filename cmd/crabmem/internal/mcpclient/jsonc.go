package mcpclient

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// jsonc is JSON with comments and commas before closing brackets, as VS Code and
// Zed read it.
type jsonc struct{}

func (jsonc) decode(text []byte) (map[string]any, error) {
	t, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	v := make(map[string]any)
	if len(bytes.TrimSpace(t.plain)) == 0 {
		return v, nil
	}
	dec := json.NewDecoder(bytes.NewReader(t.plain))
	dec.UseNumber()
	return v, dec.Decode(&v)
}

func (jsonc) servers(text []byte, key string) (map[string]Entry, error) {
	t, err := parseJSON(text)
	if err != nil || len(bytes.TrimSpace(t.plain)) == 0 {
		return nil, err
	}
	var file map[string]json.RawMessage
	var list map[string]json.RawMessage
	if json.Unmarshal(t.plain, &file) != nil || file[key] == nil || json.Unmarshal(file[key], &list) != nil {
		return nil, nil
	}
	servers := make(map[string]Entry)
	for name, raw := range list {
		var e Entry
		if json.Unmarshal(raw, &e) == nil && e.Command != "" {
			servers[name] = e
		}
	}
	return servers, nil
}

// object returns the position of the object at a path. It is -1 if a member is
// missing, and depth is the number of members found.
func (t *jsonText) object(path ...string) (open, depth int, err error) {
	open = bytes.IndexByte(t.plain, '{')
	for i, name := range path {
		list, _ := t.members(open)
		m, err := t.find(list, name)
		if err != nil {
			return -1, i, err
		}
		if m == nil {
			return -1, i, nil
		}
		if !m.isObject {
			return -1, i, syntaxError(t.text, m.start, fmt.Errorf("%q is not an object", name))
		}
		open = m.value
	}
	return open, len(path), nil
}

func (jsonc) set(text []byte, key, name string, fields []field) ([]byte, error) {
	t, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(t.plain)) == 0 {
		// Comments stay before the object.
		if n := len(text); n > 0 && text[n-1] != '\n' && len(bytes.TrimSpace(text)) > 0 {
			text = append(bytes.Clone(text), '\n')
		}
		file := []field{{key, []field{{name, fields}}}}
		return fmt.Appendf(bytes.Clone(text), "%s\n", render(file, "", "  ", "\n", false)), nil
	}
	_, depth, err := t.object(key, name)
	if err != nil {
		return nil, err
	}
	switch depth {
	case 0:
		open, _, _ := t.object()
		return t.put(open, key, []field{{name, fields}})
	case 1:
		open, _, _ := t.object(key)
		return t.put(open, name, fields)
	}
	old, err := jsonc{}.decode(text)
	if err != nil {
		return nil, err
	}
	entry := cut(old, key, name)
	for _, f := range fields {
		if now, ok := entry[f.name]; ok && render(f.value, "", "", "", true) == renderAny(now) {
			continue
		}
		if t, err = parseJSON(t.text); err != nil {
			return nil, err
		}
		open, _, err := t.object(key, name)
		if err != nil {
			return nil, err
		}
		if t.text, err = t.put(open, f.name, f.value); err != nil {
			return nil, err
		}
	}
	return t.text, nil
}

// renderAny returns a decoded value as render does, or "" for other types.
func renderAny(v any) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case []any:
		var list []string
		for _, x := range v {
			s, ok := x.(string)
			if !ok {
				return ""
			}
			list = append(list, s)
		}
		return render(list, "", "", "", true)
	}
	return ""
}

func (jsonc) remove(text []byte, key, name string) ([]byte, error) {
	t, err := parseJSON(text)
	if err != nil || len(bytes.TrimSpace(t.plain)) == 0 {
		return text, err
	}
	open, depth, err := t.object(key)
	if err != nil || depth == 0 {
		return text, err
	}
	return t.drop(open, name)
}
