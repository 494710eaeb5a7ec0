package crmem

import (
	"testing"

	"crabmem/crmem/internal/format"
)

// TestStageFindsID looks for an entry by its ID in each part of a stage.
func TestStageFindsID(t *testing.T) {
	r := recordOf(&Entry{ID: 7, Name: "n", Content: "text"})
	at := func(rec format.Record) map[string]format.Record {
		return map[string]format.Record{"m": recordOf(&Entry{ID: 8, Name: "m"}), "gone": "", "n": rec}
	}
	for name, g := range map[string]*stage{
		"table":        {t: tableOf(r)},
		"newest group": {t: &table{}, before: [2]map[string]format.Record{at(r), nil}},
		"older group":  {t: &table{}, before: [2]map[string]format.Record{nil, at(r)}},
		"large batch":  {t: &table{}, names: at(r)},
		"batch":        {t: &table{}, set: []named{{"gone", ""}, {"m", recordOf(&Entry{ID: 8, Name: "m"})}, {"n", r}}},
	} {
		if got := g.byID(7); got != r {
			t.Errorf("%s: found %q", name, got)
		}
		if got := g.byID(9); got != "" {
			t.Errorf("%s: found %q for another ID", name, got)
		}
	}
	for name, g := range map[string]*stage{
		"table, removed in a group":  {t: tableOf(r), before: [2]map[string]format.Record{at(""), nil}},
		"older group, removed later": {t: &table{}, before: [2]map[string]format.Record{at(""), at(r)}},
		"group, removed in a batch":  {t: &table{}, before: [2]map[string]format.Record{at(r), nil}, set: []named{{"n", ""}}},
		"batch, removed":             {t: &table{}, set: []named{{"n", r}, {"n", ""}}},
	} {
		if got := g.byID(7); got != "" {
			t.Errorf("%s: found %q", name, got)
		}
	}
}

func tableOf(r format.Record) *table {
	t := &table{}
	t.init(1)
	t.append(r)
	return t
}
