package main

import (
	"reflect"
	"strings"
	"testing"

	"crabmem/daemon/op"
)

// TestRecallFlags checks that each option of a search is a flag, which sets its field.
func TestRecallFlags(t *testing.T) {
	t.Parallel()
	cmd := recallCommand(newApp(nil, nil, nil))
	for _, field := range op.Fields(reflect.TypeFor[op.RankArgs]()) {
		flag := cmd.Flags().Lookup(strings.ReplaceAll(field.Name, "_", "-"))
		if flag == nil {
			t.Errorf("no flag for %s", field.Name)
			continue
		}
		value := map[string]string{"float64": "0.5", "int": "2", "string": "recent", "bool": "true"}[field.Type.Kind().String()]
		if err := flag.Value.Set(value); err != nil || flag.Usage == "" {
			t.Errorf("--%s %s: %v", flag.Name, value, err)
		}
		if len(field.Words) > 0 {
			words, _ := cmd.GetFlagCompletionFunc(flag.Name)
			if words == nil {
				t.Errorf("--%s has no completion", flag.Name)
				continue
			}
			if got, _ := words(cmd, nil, ""); !reflect.DeepEqual(got, field.Words) {
				t.Errorf("--%s completes %v, want %v", flag.Name, got, field.Words)
			}
		}
	}
}
