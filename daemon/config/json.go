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
	"crabmem/daemon/model"
)

// A tree is a table as decoded: string, int64, float64, bool, []any, tree, and
// TOML's dates.
type tree = map[string]any

// A field describes a key of config.toml to [Get] and [Set].
type field struct {
	def    any           // shown if the file does not contain the key
	show   func(any) any // masks or converts the value; nil if it is not valid
	secret bool          // shown as ""
	kept   bool          // unchanged if a client omits it, like an unknown key
}

// fields lists the fields by table; * is any name. Fields without kept are keys
// of the reference's DaemonConfig: if a client omits one, it is reset.
var fields = map[string]map[string]field{
	"":         {"provider": subtable, "mcps": subtable, "system": subtable, "agents": subtable, "env": subtable},
	"system":   {"crab": subtable, "tasks": subtable, "memory": subtable},
	"provider": {"*": {}},
	"provider.*": {
		"kind": {def: "openai_compat", show: shownKind}, "models": {def: []any{}}, "base_url": {show: shownURL}, "weight": {},
		"max_retries": {def: int64(model.DefaultMaxRetries)}, "timeout": {def: int64(30), show: shownSeconds}, "api_version": {}, "region": {},
		"model_path": {}, "n_gpu_layers": {}, "n_ctx": {}, "n_threads": {},
		"api_key": ownSecret, "access_key": ownSecret, "secret_key": ownSecret,
	},
	"mcps": {"*": {}},
	"mcps.*": {
		"name": {}, "command": {def: ""}, "args": {def: []any{}}, "auto_restart": {def: true}, "url": {show: shownURL}, "auth": {},
		"env": {def: tree{}, kept: true}, "token": ownSecret,
	},
	"system.crab":    agentFields,
	"agents":         {"*": {}},
	"agents.*":       agentFields,
	"system.tasks":   {"max_concurrent": {def: int64(4)}, "viewable_window": {def: int64(16)}, "task_timeout": {def: int64(300), show: shownSeconds}},
	"system.memory":  {"recall_limit": {def: int64(5)}, "soul_editable": {def: true}},
	"env":            {"*": {secret: true}},
	"mcps.*.env":     {"*": {secret: true}},
	"headers":        {"*": ownSecret},
	"mcps.*.headers": {"*": ownSecret},
	"?.env":          {"*": ownSecret},
}

var (
	subtable    = field{def: tree{}, kept: true}
	ownSecret   = field{secret: true, kept: true}
	agentFields = map[string]field{
		"description": {def: ""}, "model": {}, "max_iterations": {def: int64(16)}, "thinking": {def: false}, "members": {def: []any{}},
		"skills": {def: []any{}}, "mcps": {def: []any{}}, "compact_threshold": {def: int64(100_000)},
	}
)

// fieldOf returns a field; an unknown key has kept set.
func fieldOf(table, key string) field {
	for _, name := range []string{key, "*"} {
		if f, ok := fields[table][name]; ok {
			return f
		}
	}
	return field{kept: true}
}

// pattern returns the path of a table with each name that users choose as *. A
// table without fields is "?".
func pattern(table, key string) string {
	switch table {
	case "":
		return key
	case "provider", "mcps", "agents":
		return table + ".*"
	case "system", "mcps.*":
		return table + "." + key
	}
	if key == "env" || key == "headers" {
		return "?.env"
	}
	return "?"
}

// mayBeSecret reports whether a value that need not be a secret is named or
// begins like one. The file may be invalid.
func mayBeSecret(table, key string, v any) bool {
	if f, ok := fields[table][key]; ok && !f.kept && key != "command" {
		return false
	}
	switch v := v.(type) {
	case string:
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
	return encodeJSON(l.show(stored, text))
}

func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// stored reads config.toml and replaces old names of keys.
func (l *loader) stored() (tree, []byte, error) {
	text, err := l.read(File, maxFile)
	if err != nil {
		l.file(File).add(0, "%s", reason(err))
		return nil, nil, l.found
	}
	t, err := rawTOML(text)
	if err != nil {
		l.file(File).syntax(err)
		return nil, nil, l.found
	}
	for _, p := range sub(t, "provider") {
		if p, ok := p.(tree); ok && p["standard"] != nil && p["kind"] == nil {
			p["kind"] = p["standard"]
			delete(p, "standard")
		}
	}
	return t, text, nil
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
	t, err := parseTOML(text)
	if err != nil {
		return Offline
	}
	quiet := &loader{fsys: l.fsys, home: l.home, tree: l.tree, getenv: func(string) string { return "" }, placeholders: true}
	c := &Config{}
	quiet.providers(c, newSection(quiet.file(File), "", t))
	return activeModel(c.Providers)
}

// shown copies a value without its secrets and with the defaults of its fields.
// table is the pattern of the table that v is, or that contains v.
func shown(table string, v any) any {
	switch v := v.(type) {
	case tree:
		t := make(tree, len(v))
		for k, f := range fields[table] {
			if f.def != nil {
				t[k] = f.def
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
	f := fieldOf(table, key)
	if f.secret || mayBeSecret(table, key, v) {
		return ""
	}
	if table == "mcps.*" && key == "args" {
		return shownArgs(v)
	}
	if f.show != nil {
		if s := f.show(v); s != nil {
			return s
		}
	}
	return shown(pattern(table, key), v)
}

// shownKind returns the reference's spelling of a kind.
func shownKind(v any) any {
	switch v {
	case "openai", "openai-compatible":
		return "openai_compat"
	case "llama.cpp":
		return "llama_cpp"
	}
	return nil
}

// shownSeconds returns a duration in seconds, rounded up.
func shownSeconds(v any) any {
	d, ok := asDuration(v)
	if !ok {
		return nil
	}
	return int64((d + time.Second - 1) / time.Second)
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
		f := fieldOf(table, k)
		old, had := stored[k]
		t, isTable := v.(tree)
		switch {
		case v == nil: // removed
		case reflect.DeepEqual(v, shown[k]), v == "" && f.secret:
			if had {
				out[k] = old
			} else if v == "" && f.secret && table != "provider.*" {
				out[k] = "" // a new variable that is empty
			}
		case table == "mcps.*" && k == "args":
			out[k] = mergeArgs(old, shown[k], v)
		case isTable:
			if m := merge(pattern(table, k), sub(stored, k), sub(shown, k), t); had || len(m) > 0 || !f.kept {
				out[k] = m
			}
		default:
			out[k] = v
		}
	}
	for k, v := range stored {
		if _, ok := sent[k]; !ok && fieldOf(table, k).kept {
			out[k] = v
		}
	}
	return out
}
