package config

import (
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/trust"
)

// derived are the fields that no row points at: they identify the value, or depend on
// several keys or on other files.
var derived = map[string]bool{
	"Config.Home": true, "Config.Model": true, "Config.Agents": true, "Config.Providers": true, "Config.MCPs": true, "Config.Workers": true, "Config.Embedder": true,
	"Config.Origins": true, "Config.Roles.ModelOrigins": true, "Config.SecretFiles": true, "Config.Identity": true, "Config.Warnings": true, "Config.Broken": true,
	"Agent.File": true, "Agent.FollowsActive": true, "Agent.Origins": true, "Provider.Name": true, "ExternalWorker.Name": true, "Provider.KeySource": true, "Provider.Broken": true, "Rule.Prefix": true,
}

// read are the fields that the func of a row sets.
var read = map[string]string{
	"Config.History": "memory.history", "Config.HistoryLimit": "memory.history", "Config.HalfLife": "recall.half_life", "Config.Roles.Keep": "roles.keep",
	"Agent.Memory": "memory", "Agent.Space": "memory", "Embedder.Fusion": "fusion", "Config.HubSources": "hub.sources",
}

// aliases are the second keys of a field.
var aliases = map[string]bool{"standard": true, "api_key_file": true, "token_file": true}

// TestRows checks that every field of the configuration has exactly one row, and that every
// row has a field.
func TestRows(t *testing.T) {
	c, p, m, w, a, e, r := new(Config), new(Provider), new(MCP), new(ExternalWorker), new(Agent), new(Embedder), new(trust.Rule)
	for _, group := range []struct {
		of   any
		rows []row
	}{
		{c, c.rows()}, {p, p.rows()}, {m, m.rows()}, {w, w.rows()}, {a, append(a.rows(), a.promptRow(), a.nameRow())}, {e, e.rows()}, {r, originRows(r)},
	} {
		names := make(map[string]bool)
		to := make(map[uintptr]string)
		for _, r := range group.rows {
			v := reflect.ValueOf(r.to)
			if names[r.path] {
				t.Errorf("two rows of the key %s", r.path)
			}
			names[r.path] = true
			if r.to == nil || v.Kind() == reflect.Func || r.marks&unused != 0 || aliases[r.path] && to[v.Pointer()] != "" {
				continue
			}
			if to[v.Pointer()] != "" {
				t.Errorf("the rows %s and %s have one field", to[v.Pointer()], r.path)
			}
			to[v.Pointer()] = r.path
		}
		var visit func(name string, v reflect.Value)
		visit = func(name string, v reflect.Value) {
			for i := range v.NumField() {
				field, at := name+"."+v.Type().Field(i).Name, v.Field(i).Addr().Pointer()
				switch path := to[at]; {
				case path != "" && v.Field(i).Kind() != reflect.Struct:
					delete(to, at)
				case names[read[field]] || derived[field]:
				case v.Field(i).Kind() == reflect.Struct:
					visit(field, v.Field(i))
				default:
					t.Errorf("the field %s has no row", field)
				}
			}
		}
		of := reflect.ValueOf(group.of).Elem()
		visit(of.Type().Name(), of)
		for _, path := range to {
			t.Errorf("the row %s has no field", path)
		}
	}
}

// TestKeysAreShown checks that the template has every key, and that config get has every
// default.
func TestKeysAreShown(t *testing.T) {
	js, err := Get(faultfs.NewMem(), "/h")
	var root map[string]any
	if err := errors.Join(err, json.Unmarshal(js, &root)); err != nil {
		t.Fatal(err)
	}
	text := string(Template(false))
	keys := Keys()
	for _, k := range keys {
		_, name := cutLast(strings.TrimSuffix(k.Path, ".*"))
		if !regexp.MustCompile(`(?m)(^#|[\[ .])` + name + `( =|[\].,])`).MatchString(text) {
			t.Errorf("the template has no key %s", k.Path)
		}
		if k.Text == "" {
			t.Errorf("the key %s has no sentence", k.Path)
		}
		if k.Default == "" || strings.Contains(k.Path, "*") {
			continue
		}
		var v any = root
		for name := range strings.SplitSeq(k.Path, ".") {
			v = v.(map[string]any)[name]
		}
		if got := literal(v); got != k.Default {
			t.Errorf("config get returns %s for %s, want %s", got, k.Path, k.Default)
		}
	}
	if len(keys) < 90 {
		t.Errorf("%d keys", len(keys))
	}
}
