package op_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"crabmem/daemon/op"
	"crabmem/fuzz/race"

	"github.com/google/jsonschema-go/jsonschema"
)

// TestCoerceRandom: a call that fits its schema is not changed, and a call that is
// corrected once is not changed again.
func TestCoerceRandom(t *testing.T) {
	race.Skip(t)
	const runs = 5_000
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	fixed := 0
	for i := range runs {
		s := randomObject(r, 3)
		args := randomValue(r, s)
		if got, notes, faults := fix(t, args, s); len(faults)+len(notes) > 0 || !reflect.DeepEqual(got, args) {
			t.Fatalf("seed %d, run %d: %s\n%s\nbecomes\n%s\n%q, %q", seed, i, text(s), text(args), text(got), notes, faults)
		}
		loose := disturb(r, args)
		once, _, faults := fix(t, loose, s)
		if len(faults) > 0 {
			continue
		}
		fixed++
		if again, notes, faults := fix(t, once, s); len(faults)+len(notes) > 0 || !reflect.DeepEqual(again, once) {
			t.Fatalf("seed %d, run %d: %s\n%s\nbecomes\n%s\nand then\n%s\n%q, %q", seed, i, text(s), text(loose), text(once), text(again), notes, faults)
		}
		if valid, err := s.Resolve(nil); err != nil || valid.Validate(once) != nil {
			t.Fatalf("seed %d, run %d: %s\n%s\nis invalid: %v", seed, i, text(s), text(once), valid.Validate(once))
		}
	}
	if fixed < runs/10 {
		t.Errorf("only %d of %d calls were corrected", fixed, runs)
	}
	t.Logf("%d calls, %d of %d disturbed ones corrected", runs, fixed, runs)
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func fix(t *testing.T, args any, s *jsonschema.Schema) (fixed any, notes, faults []string) {
	t.Helper()
	b, notes, faults := op.FixArguments([]byte(text(args)), s)
	if len(faults) > 0 {
		return nil, notes, faults
	}
	if err := json.Unmarshal(b, &fixed); err != nil {
		t.Fatal(err)
	}
	return fixed, notes, nil
}

func randomObject(r *rand.Rand, depth int) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: make(map[string]*jsonschema.Schema)}
	for i := range 1 + r.IntN(4) {
		name := fmt.Sprintf("%c%d", 'a'+rune(i), r.IntN(1000))
		s.Properties[name] = randomSchema(r, depth-1)
		if r.IntN(3) == 0 {
			s.Required = append(s.Required, name)
		}
	}
	return s
}

func randomSchema(r *rand.Rand, depth int) *jsonschema.Schema {
	kinds := 5
	if depth > 0 {
		kinds = 7
	}
	switch r.IntN(kinds) {
	case 0:
		return &jsonschema.Schema{Type: "boolean"}
	case 1:
		s := &jsonschema.Schema{Type: "integer"}
		if r.IntN(2) == 0 {
			s.Minimum, s.Maximum = jsonschema.Ptr(float64(r.IntN(3))), jsonschema.Ptr(float64(10+r.IntN(90)))
		}
		return s
	case 2:
		return &jsonschema.Schema{Type: "number"}
	case 3:
		s := &jsonschema.Schema{Type: "string"}
		switch r.IntN(4) {
		case 0:
			s.Enum = []any{"note", "Archive", "ARCHIVE", "5", "true"}
		case 1:
			s.MinLength = jsonschema.Ptr(1)
		}
		return s
	case 4:
		return &jsonschema.Schema{} // any value
	case 5:
		return randomObject(r, depth)
	}
	return &jsonschema.Schema{Type: "array", Items: randomSchema(r, depth-1)}
}

var words = []string{"", "a", "null", "true", "[]", "{}", "[1]", `["a"]`, `{"a":1}`, "5", " 5 ", "1e2", "\"", "é\n", "False", "note", "NOTE", `["\ud800"]`}

// randomValue returns a value that fits a schema.
func randomValue(r *rand.Rand, s *jsonschema.Schema) any {
	switch s.Type {
	case "boolean":
		return r.IntN(2) == 0
	case "integer":
		if s.Maximum != nil {
			return *s.Minimum + float64(r.IntN(int(*s.Maximum-*s.Minimum)+1))
		}
		return float64(r.IntN(2_000_000) - 1_000_000)
	case "number":
		return float64(r.IntN(1000)-500) / 8
	case "string":
		if len(s.Enum) > 0 {
			return s.Enum[r.IntN(len(s.Enum))]
		}
		for {
			if w := words[r.IntN(len(words))]; w != "" || s.MinLength == nil {
				return w
			}
		}
	case "object":
		m := make(map[string]any)
		for name, p := range s.Properties {
			if strings.Contains(strings.Join(s.Required, " "), name) || r.IntN(2) == 0 {
				m[name] = randomValue(r, p)
			}
		}
		return m
	case "array":
		list := []any{}
		for range r.IntN(4) {
			list = append(list, randomValue(r, s.Items))
		}
		return list
	}
	return []any{"a", 1.5, true, map[string]any{"x": []any{nil}}, []any{}}[r.IntN(5)]
}

// disturb replaces some values by others, as clients that do not follow a schema do.
func disturb(r *rand.Rand, v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any)
		for name, one := range v {
			m[name] = disturb(r, one)
		}
		if r.IntN(8) == 0 {
			m["zzzzzzzz"] = 1.0
		}
		if r.IntN(4) == 0 {
			return text(m)
		}
		return m
	case []any:
		list := []any{}
		for _, one := range v {
			list = append(list, disturb(r, one))
		}
		if r.IntN(3) == 0 {
			return text(list)
		}
		return list
	case string:
		if r.IntN(2) == 0 {
			return strings.ToUpper(v)
		}
	}
	switch r.IntN(8) {
	case 0:
		return text(v)
	case 1:
		return []any{"", nil, []any{}, map[string]any{}, "null"}[r.IntN(5)]
	case 2:
		return []any{0.0, 1000.0, -1.0, true, "5"}[r.IntN(5)]
	}
	return v
}
