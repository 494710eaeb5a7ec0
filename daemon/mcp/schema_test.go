package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestSchemaOf compares schemas of servers with those for models.
func TestSchemaOf(t *testing.T) {
	chain := `"a0":{"type":"string"}`
	for i := range 40 { // each contains the one before twice
		chain += fmt.Sprintf(`,"a%d":{"type":"object","properties":{"x":{"$ref":"#/$defs/a%d"},"y":{"$ref":"#/$defs/a%d"}}}`, i+1, i, i)
	}
	for _, c := range []struct{ name, schema, want string }{
		{"plain", `{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}`, `{"properties":{"q":{"type":"string"}},"required":["q"],"type":"object"}`},
		{"reference", `{"$defs":{"Q":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}},"type":"object","properties":{"q":{"$ref":"#/$defs/Q"}}}`,
			`{"properties":{"q":{"properties":{"text":{"type":"string"}},"required":["text"],"type":"object"}},"type":"object"}`},
		{"chain, with members next to the reference", `{"definitions":{"A":{"$ref":"#/definitions/B"},"B":{"type":"integer","description":"b"}},"properties":{"q":{"$ref":"#/definitions/A","description":"a"}}}`,
			`{"properties":{"q":{"description":"a","type":"integer"}},"type":"object"}`},
		{"in a list", `{"$defs":{"a/b":{"type":"string"}},"properties":{"q":{"type":"array","items":{"anyOf":[{"$ref":"#/$defs/a~1b"},{"$ref":"#/properties/n"}]}},"n":{"type":"integer"}}}`,
			`{"properties":{"n":{"type":"integer"},"q":{"items":{"anyOf":[{"type":"string"},{"type":"integer"}]},"type":"array"}},"type":"object"}`},
		{"cycle", `{"$defs":{"N":{"type":"object","properties":{"next":{"$ref":"#/$defs/N"},"root":{"$ref":"#"}}}},"properties":{"n":{"$ref":"#/$defs/N"}}}`,
			`{"properties":{"n":{"properties":{"next":{"type":"object"},"root":{"properties":{"n":{"type":"object"}}}},"type":"object"}},"type":"object"}`},
		{"itself", `{"$defs":{"A":{"$ref":"#/$defs/A"}},"properties":{"a":{"$ref":"#/$defs/A"}}}`, `{"properties":{"a":{}},"type":"object"}`},
		{"elsewhere", `{"properties":{"a":{"$ref":"https://example.com/a.json"},"b":{"$ref":"#/$defs/none"},"c":{"$ref":"#anchor"},"d":{"$ref":"#/allOf/7"}}}`,
			`{"properties":{"a":{},"b":{},"c":{},"d":{}},"type":"object"}`},
		{"values are not schemas", `{"properties":{"$ref":{"type":"string","const":{"$ref":"#"}},"enum":{"enum":["a",null]},"definitions":{"default":null}}}`,
			`{"properties":{"$ref":{"const":{"$ref":"#"},"type":"string"},"definitions":{"default":null},"enum":{"enum":["a",null]}},"type":"object"}`},
		{"alternatives at the root", `{"anyOf":[{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]},{"properties":{"name":{"type":"string"}},"required":["name"]}]}`,
			`{"properties":{"id":{"type":"integer"},"name":{"type":"string"}},"type":"object"}`},
		{"all of at the root", `{"properties":{"a":{"type":"string"}},"required":["a"],"allOf":[{"properties":{"a":{"type":"integer"},"b":{}},"required":["b",1]}]}`,
			`{"properties":{"a":{"type":"string"},"b":{}},"required":["a","b"],"type":"object"}`},
		{"alternatives below", `{"properties":{"k":{"anyOf":[{"type":"integer"},{"type":"null"}]},"b":true}}`, `{"properties":{"b":{},"k":{"anyOf":[{"type":"integer"},{"type":"null"}]}},"type":"object"}`},
		{"nullable root", `{"type":["object","null"],"properties":{"a":{}}}`, `{"properties":{"a":{}},"type":"object"}`},
		{"nulls", `{"type":"object","properties":null,"required":null,"additionalProperties":false}`, `{"additionalProperties":false,"properties":{},"type":"object"}`},
		{"no object", `{"type":"string","enum":["a"]}`, `{"properties":{},"type":"object"}`},
		{"boolean", `true`, `{"properties":{},"type":"object"}`},
		{"text", `{"title":"a\u202e\n<b>","properties":{"title":{"type":"string"}}}`, `{"properties":{"title":{"type":"string"}},"title":"a \u0026lt;b\u0026gt;","type":"object"}`},
		{"none", `null`, ``},
		{"large", `{"description":"` + strings.Repeat("x", maxSource) + `"}`, ``},
	} {
		var v any
		if err := json.Unmarshal([]byte(c.schema), &v); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := string(schemaOf(v)); got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", c.name, got, c.want)
		}
	}
	var v any
	for name, schema := range map[string]string{
		"exponential": `{"$defs":{` + chain + `},"properties":{"a":{"$ref":"#/$defs/a40"}}}`,
		"deep":        `{"properties":{"a":` + strings.Repeat(`{"items":`, 5000) + `{}` + strings.Repeat(`}`, 5000) + `}}`,
		"deep value":  `{"properties":{"a":{"default":` + strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000) + `}}}`,
		"wide value":  `{"$defs":{"a":{"enum":["` + strings.Repeat("x", 9000) + `"]}},"properties":{"a":{"$ref":"#/$defs/a"},"b":{"$ref":"#/$defs/a"},"c":{"$ref":"#/$defs/a"}}}`,
	} {
		if err := json.Unmarshal([]byte(schema), &v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := schemaOf(v)
		if fits := len(got) > 0 && len(got) <= maxSchema && strings.Contains(string(got), `"a":{`); fits != (name != "wide value") {
			t.Errorf("%s: %d bytes: %.200s", name, len(got), got)
		}
	}
}

// TestListOfOneTool contains the complete schema.
func TestListOfOneTool(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.site("1001", false)
		s.tools = `[` + toolB + `,{"name":"find","description":"Finds.","inputSchema":{"$defs":{"Q":{"properties":{"text":{"type":"string"}}}},"properties":{"q":{"$ref":"#/$defs/Q"}}}}]`
		w.Set([]Server{{Name: "a", URL: "http://127.0.0.1:1001/mcp"}})
		w.settle(0)
		all := w.tools(func(*listed) bool { return true })
		if got, want := describe(all[1:]), "find: Finds. Arguments: q?\nJSON Schema of the arguments: "+`{"properties":{"q":{"properties":{"text":{"type":"string"}}}},"type":"object"}`; got != want {
			t.Errorf("%s\nwant:\n%s", got, want)
		}
		if got := describe(all); strings.Contains(got, "JSON Schema") {
			t.Errorf("two tools:\n%s", got)
		}
	})
}
