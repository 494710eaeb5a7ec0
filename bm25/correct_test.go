package bm25_test

import (
	"fmt"
	"slices"
	"testing"

	"crabmem/bm25"
)

func TestCorrect(t *testing.T) {
	texts := [][]string{
		{"the Kubernetes cluster"}, {"a kubelet, and kubernetes again"}, {"autovacuum of the wal"}, {"серверы в Казани"},
		{"réseau café"}, {"errors E0308 and version 1.2.3"}, {"東京都庁"}, {"a removed observability"},
	}
	l := newLibrary(t, texts...)
	l.x.Remove(8)
	for query, want := range map[string]string{
		"kuberntes":       "[{kuberntes typo [kubernetes] 0.7}]",
		"kubernetse":      "[{kubernetse typo [kubernetes] 0.7}]",
		"KUBERNETE5":      "[]", // no word of letters
		"kuber":           "[{kuber prefix [kubernetes] 0.7}]",
		"kubel":           "[{kubel prefix [kubelet] 0.7}]",
		"auto vacuum":     "[{auto vacuum joined [autovacuum] 0.7}]",
		"kubernetes":      "[]",
		"сервреы":         "[{сервреы typo [серверы] 0.7}]",
		"reseu":           "[{reseu typo [reseau] 0.7}]",
		"observabilty":    "[]", // it was removed
		"E0309":           "[]",
		"1.2.4":           "[]",
		"東京塔":             "[]",
		"kub":             "[]",
		"the of":          "[]",
		"":                "[]",
		"zzzzzz qqqqqqqq": "[]",
	} {
		q := l.query(query, 0)
		if got := fmt.Sprint(l.x.Search(q).Corrections); got != want && !(got == "[]" && want == "[]") {
			t.Errorf("%q is corrected to %v, want %v", query, got, want)
		}
		if q.Correct = false; len(l.x.Search(q).Corrections) > 0 {
			t.Errorf("%q is corrected unasked", query)
		}
	}
	if got := l.ids(l.query("kuberntes cluster", 0)); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("found %v", got)
	}
	if got := l.ids(bm25.Query{Text: "kuberntes"}); len(got) > 0 {
		t.Errorf("found %v without corrections", got)
	}
}
