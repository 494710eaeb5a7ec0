package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/display"
)

// rowOf returns the row of a key in a table, which is a pattern of schema. The row of an
// unknown key is empty.
func rowOf(table, key string) *row {
	for _, name := range []string{key, "*"} {
		if r := schema()[table][name]; r != nil {
			return r
		}
	}
	return &row{}
}

// isSecret reports whether clients see the value as "".
func (r *row) isSecret() bool {
	_, ok := r.to.(*Secret)
	return ok
}

// isArgs reports whether clients see the value without the arguments that look like secrets.
func (r *row) isArgs() bool {
	_, ok := r.to.(*[]Secret)
	return ok
}

// isKept reports whether the value is unchanged if a client omits it, like an unknown key.
func (r *row) isKept() bool { return r.marks&reference == 0 }

// mayBeSecret reports whether a value that need not be a secret is named or
// begins like one. The file may be invalid.
func mayBeSecret(table, key string, v any) bool {
	r := schema()[table][key]
	if r != nil && !r.isKept() && key != "command" {
		return false
	}
	switch v := v.(type) {
	case string:
		if r != nil {
			if w, ok := r.limit.(words); ok && slices.Contains(w, v) {
				return false
			}
		}
		text := table == "agents.*" || table == "system.crab" // prose may contain such words
		return secretName().MatchString(key) && !strings.HasSuffix(key, "_file") || !text && secretValue().MatchString(v)
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return mayBeSecret(table, key, e) })
	}
	return false
}

// Get returns config.toml as JSON of the reference's DaemonConfig, with its
// defaults and with the file's additional keys. Get masks secrets: api_key,
// access_key, secret_key, and every value of an env are "". So is any other value
// whose key or beginning is typical of a secret. An address has no user or query,
// and arguments of a server that look like secrets are hidden. Get does not expand
// variables. [Set] keeps the file's values for those that it gets back unchanged.
func Get(fsys vfs.FS, home string) ([]byte, error) {
	l, err := open(fsys, home, nil)
	if err != nil {
		return nil, err
	}
	defer l.close()
	stored, text, err := l.stored()
	if err != nil {
		return nil, err
	}
	return display.JSON(l.show(stored.tree, text))
}

// stored reads config.toml and replaces old names of keys.
func (l *loader) stored() (*document, []byte, error) {
	text, err := l.read(File, maxFile)
	if err != nil {
		l.file(File).add(0, "%s", reason(err))
		return nil, nil, l.found
	}
	d, err := parseTOML(text)
	if err != nil {
		l.file(File).syntax(err)
		return nil, nil, l.found
	}
	for _, p := range sub(d.tree, "provider") {
		if p, ok := p.(tree); ok && p["standard"] != nil && p["kind"] == nil {
			p["kind"] = p["standard"]
			delete(p, "standard")
		}
	}
	return d, text, nil
}

// sub returns a table of a table, or nil.
func sub(t tree, key string) tree {
	s, _ := t[key].(tree)
	return s
}

// show returns config.toml as a client may see it.
func (l *loader) show(stored tree, text []byte) tree {
	t := shown("", stored).(tree)
	for name, m := range sub(t, "mcps") {
		if m, ok := m.(tree); ok && m["name"] == nil {
			m["name"] = name
		}
	}
	if crab := sub(sub(t, "system"), "crab"); crab != nil && crab["model"] == nil {
		crab["model"] = l.defaultModel(text)
	}
	return t
}

// activeModel returns the model that crab uses if it does not set one.
func activeModel(providers []Provider) string {
	model, weight := Offline, -1
	for _, p := range providers {
		if p.Weight > weight && len(p.Models) > 0 {
			model, weight = p.Models[0], p.Weight
		}
	}
	return model
}

// defaultModel returns the activeModel of a text, which may be invalid.
func (l *loader) defaultModel(text []byte) string {
	d, err := parseTOML(text)
	if err != nil {
		return Offline
	}
	quiet := &loader{fsys: l.fsys, home: l.home, tree: l.tree, getenv: func(string) string { return "" }, placeholders: true}
	c := &Config{}
	providers(c, &section{l: quiet, f: quiet.file(File), src: &d.source, t: d.tree})
	return activeModel(c.Providers)
}

// shown copies a value without its secrets and with the defaults of its fields.
// table is the pattern of the table that v is, or that contains v.
func shown(table string, v any) any {
	switch v := v.(type) {
	case tree:
		t := make(tree, len(v))
		for k, r := range schema()[table] {
			if def := r.shownDefault(); def != nil && k != "*" {
				t[k] = def
			}
		}
		maps.Copy(t, v)
		for k, e := range t {
			t[k] = shownField(table, k, e)
		}
		return t
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = shown("?", e)
		}
		return list
	case string:
		if table == "?" && strings.Contains(v, "://") {
			return shownURL(v)
		}
		return v
	case int64, bool:
		return v
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprint(v)
		}
		return v
	}
	return fmt.Sprint(v) // a date or time
}

func shownField(table, key string, v any) any {
	r := rowOf(table, key)
	_, isDuration := r.to.(*time.Duration)
	switch {
	case r.isSecret() || mayBeSecret(table, key, v):
		return ""
	case r.isArgs():
		return shownArgs(v)
	case r.marks&address != 0:
		if text := shownURL(v); text != nil {
			return text
		}
	case isDuration && !r.isKept():
		// The reference has seconds.
		if d, ok := asDuration(v); ok {
			return int64((d + time.Second - 1) / time.Second)
		}
	case key == "kind" && table == "provider.*":
		if name, ok := referenceKinds[v]; ok {
			return name
		}
	}
	return shown(below(table, key), v)
}

// referenceKinds are the reference's spellings of kinds.
var referenceKinds = map[any]string{"openai": "openai_compat", "openai-compatible": "openai_compat", "llama.cpp": "llama_cpp"}

// shownDefault returns the default that a client sees. The reference's lists are never absent.
func (r *row) shownDefault() any {
	_, isList := r.to.(*[]string)
	if v := r.defaultValue(); v != nil || r.isKept() || !isList && !r.isArgs() {
		return v
	}
	return []any{}
}

// shownURL hides the user and the query of an address, and an invalid one.
func shownURL(v any) any {
	text, ok := v.(string)
	if !ok {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	if u.User == nil && u.RawQuery == "" {
		return text
	}
	if u.User != nil {
		u.User = url.User("hidden")
	}
	if u.RawQuery != "" {
		u.RawQuery = "hidden"
	}
	return u.String()
}

// decodeTable decodes the JSON of a configuration.
func decodeTable(js []byte) (tree, error) {
	v, err := decodeJSON(js)
	if err != nil {
		return nil, err
	}
	t, ok := v.(tree)
	if !ok {
		return nil, errors.New("not an object")
	}
	return t, nil
}

// decodeJSON decodes the JSON of a client.
func decodeJSON(js []byte) (any, error) {
	if len(js) > maxFile {
		return nil, fmt.Errorf("%d bytes, more than the limit of %d", len(js), maxFile)
	}
	d := json.NewDecoder(bytes.NewReader(js))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("data after the object")
	}
	return plain(v, false, 0)
}

// plain converts JSON's numbers to TOML's. A null removes a key of a table; in a
// list it is an error.
func plain(v any, inList bool, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errors.New("nested too deeply")
	}
	var err error
	switch v := v.(type) {
	case nil:
		if inList {
			return nil, errors.New("null in a list")
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		return v.Float64()
	case tree:
		for k := range v {
			if v[k], err = plain(v[k], inList, depth+1); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range v {
			if v[i], err = plain(v[i], true, depth+1); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// merge returns the configuration to store: stored with the changes between
// shown and sent. shown is the configuration that the client received.
func merge(table string, stored, shown, sent tree) tree {
	out := make(tree)
	for k, v := range sent {
		r := rowOf(table, k)
		old, had := stored[k]
		t, isTable := v.(tree)
		switch {
		case v == nil: // removed
		case reflect.DeepEqual(v, shown[k]), v == "" && r.isSecret():
			if had {
				out[k] = old
			} else if v == "" && r.isSecret() && table != "provider.*" {
				out[k] = "" // a new variable that is empty
			}
		case r.isArgs():
			out[k] = mergeArgs(old, shown[k], v)
		case isTable:
			if m := merge(below(table, k), sub(stored, k), sub(shown, k), t); had || len(m) > 0 || !r.isKept() {
				out[k] = m
			}
		default:
			out[k] = v
		}
	}
	for k, v := range stored {
		if _, ok := sent[k]; !ok && rowOf(table, k).isKept() {
			out[k] = v
		}
	}
	return out
}
