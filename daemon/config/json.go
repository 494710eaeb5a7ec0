package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"crabmem/crmem/vfs"
)

// A tree is a table as decoded: string, int64, float64, bool, []any, tree, and
// TOML's dates.
type tree = map[string]any

// reference names the keys of the reference's DaemonConfig that are no tables,
// by table; a * stands for any name. What a client leaves out of them is meant
// to go back to its default.
var reference = map[string][]string{
	"provider.*": {"kind", "models", "base_url", "weight", "max_retries", "timeout", "api_version", "region",
		"model_path", "n_gpu_layers", "n_ctx", "n_threads"},
	"mcps.*":        {"name", "command", "args", "auto_restart", "url", "auth"},
	"system.crab":   agentKeys,
	"agents.*":      agentKeys,
	"system.tasks":  {"max_concurrent", "viewable_window", "task_timeout"},
	"system.memory": {"recall_limit", "soul_editable"},
	"env":           {"*"},
	"mcps.*.env":    {"*"},
	"provider":      {"*"},
	"mcps":          {"*"},
	"agents":        {"*"},
}

var agentKeys = []string{"description", "model", "max_iterations", "thinking", "members", "skills", "mcps", "compact_threshold"}

// pattern is the path of a table with the names that users give as *, and "?"
// for every table that is none of the reference's.
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

func isSecret(table, key string) bool {
	switch table {
	case "provider.*":
		return key == "api_key" || key == "access_key" || key == "secret_key"
	case "env", "headers", "mcps.*.env", "mcps.*.headers", "?.env":
		return true
	}
	return false
}

// mayBeSecret reports what no key of ours holds: the file may be wrong, and
// whoever asks for it gets it all the same.
func mayBeSecret(table, key string, v any) bool {
	if key != "command" && slices.Contains(reference[table], key) {
		return false
	}
	switch v := v.(type) {
	case string:
		text := table == "agents.*" || table == "system.crab" // of people, about anything
		return secretName().MatchString(key) && !strings.HasSuffix(key, "_file") || !text && secretValue().MatchString(v)
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return mayBeSecret(table, key, e) })
	}
	return false
}

func isReference(table, key string) bool {
	keys := reference[table]
	return slices.Contains(keys, key) || slices.Contains(keys, "*")
}

// Get returns config.toml as JSON of the reference's DaemonConfig, with its
// defaults and with the keys of ours that the file has. No secret is in it:
// api_key, access_key, secret_key and every value of an env are "", and so is what
// is named or begins like a secret where none belongs; an address shows no
// password, and what looks like a secret in the arguments of a server is hidden.
// Variables are not expanded. What [Set] gets back unchanged it leaves as
// it is in the file.
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

// stored reads config.toml as it is, but for old names of keys.
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

// sub returns a table of a table, and nil when there is none.
func sub(t tree, key string) tree {
	s, _ := t[key].(tree)
	return s
}

// show is what a client may see of config.toml.
func (l *loader) show(stored tree, text []byte) tree {
	t := shown("", stored).(tree)
	table := func(in tree, key string) tree {
		s, ok := in[key].(tree)
		if !ok && in[key] == nil {
			s = tree{}
			in[key] = s
		}
		return s
	}
	def := func(in tree, key string, v any) {
		if in != nil && in[key] == nil {
			in[key] = v
		}
	}
	for _, p := range table(t, "provider") {
		p, _ := p.(tree)
		def(p, "kind", "openai_compat")
		def(p, "models", []any{})
		def(p, "max_retries", int64(2))
		def(p, "timeout", int64(30))
	}
	for name, m := range table(t, "mcps") {
		m, _ := m.(tree)
		def(m, "name", name)
		def(m, "command", "")
		def(m, "args", []any{})
		def(m, "env", tree{})
		def(m, "auto_restart", true)
	}
	agent := func(a tree) {
		def(a, "description", "")
		def(a, "max_iterations", int64(16))
		def(a, "thinking", false)
		for _, k := range []string{"members", "skills", "mcps"} {
			def(a, k, []any{})
		}
		def(a, "compact_threshold", int64(100_000))
	}
	system := table(t, "system")
	if system != nil {
		crab := table(system, "crab")
		agent(crab)
		def(crab, "model", l.defaultModel(text))
		tasks := table(system, "tasks")
		def(tasks, "max_concurrent", int64(4))
		def(tasks, "viewable_window", int64(16))
		def(tasks, "task_timeout", int64(300))
		memory := table(system, "memory")
		def(memory, "recall_limit", int64(5))
		def(memory, "soul_editable", true)
	}
	for _, a := range table(t, "agents") {
		a, _ := a.(tree)
		agent(a)
	}
	table(t, "env")
	return t
}

// activeModel is the model of crab when it names none.
func activeModel(providers []Provider) string {
	model, weight := Offline, -1
	for _, p := range providers {
		if p.Weight > weight && len(p.Models) > 0 {
			model, weight = p.Models[0], p.Weight
		}
	}
	return model
}

// defaultModel is the activeModel of a text, right or wrong.
func (l *loader) defaultModel(text []byte) string {
	t, err := parseTOML(text)
	if err != nil {
		return Offline
	}
	quiet := &loader{fsys: l.fsys, home: l.home, tree: l.tree, getenv: func(string) string { return "" }}
	c := &Config{}
	quiet.providers(c, newSection(quiet.file(File), "", t))
	return activeModel(c.Providers)
}

// shown copies a value without its secrets. table is the pattern of the table
// that v is or is in.
func shown(table string, v any) any {
	switch v := v.(type) {
	case tree:
		t := make(tree, len(v))
		for k, e := range v {
			switch {
			case isSecret(table, k):
				t[k] = ""
			case table == "provider.*" && k == "kind":
				t[k] = shownKind(e)
			case table == "provider.*" && k == "timeout", table == "system.tasks" && k == "task_timeout":
				t[k] = shownSeconds(e)
			case table == "provider.*" && k == "base_url", table == "mcps.*" && k == "url":
				t[k] = shownURL(e)
			case table == "mcps.*" && k == "args":
				t[k] = shownArgs(e)
			case mayBeSecret(table, k, e):
				t[k] = ""
			default:
				t[k] = shown(pattern(table, k), e)
			}
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

// shownKind is the reference's spelling of a kind.
func shownKind(v any) any {
	switch v {
	case "openai", "openai-compatible":
		return "openai_compat"
	case "llama.cpp":
		return "llama_cpp"
	}
	if _, ok := v.(string); ok {
		return v
	}
	return shown("", v)
}

// shownSeconds is what the reference has for a duration.
func shownSeconds(v any) any {
	d, ok := asDuration(v)
	if !ok {
		return shown("", v)
	}
	return int64((d + time.Second - 1) / time.Second)
}

// shownURL hides the user and the query of an address, and all of what is none.
func shownURL(v any) any {
	text, ok := v.(string)
	if !ok {
		return shown("", v)
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

// decodeJSON decodes what a client sends.
func decodeJSON(js []byte) (tree, error) {
	if len(js) > maxFile {
		return nil, fmt.Errorf("it has %d bytes, and may have %d", len(js), maxFile)
	}
	d := json.NewDecoder(bytes.NewReader(js))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the object")
	}
	v, err := plain(v, false, 0)
	if err != nil {
		return nil, err
	}
	t, ok := v.(tree)
	if !ok {
		return nil, errors.New("it is not an object")
	}
	return t, nil
}

// plain makes of JSON's numbers TOML's, which has no null: in a table that
// removes a key, in a list it is a mistake.
func plain(v any, inList bool, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errors.New("it is nested too deeply")
	}
	var err error
	switch v := v.(type) {
	case nil:
		if inList {
			return nil, errors.New("a null in a list")
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

// merge makes of what is stored and of what a client sends what to store.
// shown is what the client saw.
func merge(table string, stored, shown, sent tree) tree {
	out := make(tree)
	for k, v := range sent {
		old, had := stored[k]
		switch {
		case v == nil: // goes
		case reflect.DeepEqual(v, shown[k]), v == "" && isSecret(table, k):
			if had {
				out[k] = old
			} else if isSecret(table, k) && v == "" && table != "provider.*" {
				out[k] = "" // a new variable that is empty
			}
		case table == "mcps.*" && k == "args":
			out[k] = mergeArgs(old, shown[k], v)
		default:
			t, ok := v.(tree)
			if !ok {
				out[k] = v
				break
			}
			m := merge(pattern(table, k), sub(stored, k), sub(shown, k), t)
			if had || len(m) > 0 || isReference(table, k) {
				out[k] = m
			}
		}
	}
	for k, v := range stored {
		if _, ok := sent[k]; !ok && !isReference(table, k) {
			out[k] = v
		}
	}
	return out
}
