package bm25_test

import (
	"fmt"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
)

func Example() {
	x := bm25.New(analysis.Standard)
	x.Add(bm25.Doc{ID: 1, Fields: []string{"The canary is watched for thirty minutes after a deploy."}})
	x.Add(bm25.Doc{ID: 2, Fields: []string{"Green tea: three minutes, eighty degrees."}})
	x.Add(bm25.Doc{ID: 3, Fields: []string{"東京タワーの展望台は朝がよい。"}})
	for _, q := range []string{"deploying", "minutes of tea", "東京の朝"} {
		r := x.Search(bm25.Query{Text: q, Limit: 1, Count: true})
		fmt.Println(r.Hits[0].ID, r.Total)
	}
	// Output:
	// 1 1
	// 2 2
	// 3 1
}

func ExampleIndex_Explain() {
	x := bm25.New(analysis.Plain)
	x.Add(bm25.Doc{ID: 1, Fields: []string{"red red wine"}})
	x.Add(bm25.Doc{ID: 2, Fields: []string{"white wine"}})
	e, _ := x.Explain(bm25.Query{Text: "red wine"}, 1)
	for _, t := range e.Terms {
		fmt.Printf("%-5s tf %d df %d contributes %.3f\n", t.Term, t.TF, t.DF, t.Contribution)
	}
	// Output:
	// red   tf 2 df 1 contributes 0.902
	// wine  tf 1 df 2 contributes 0.169
}

func ExampleIndex_Search() {
	texts := map[uint64]string{
		1: "the size of the cluster",
		2: "kubernetes: cluster autoscaler",
	}
	x := bm25.New(analysis.Standard)
	for id, text := range texts {
		x.Add(bm25.Doc{ID: id, Fields: []string{text}})
	}
	r := x.Search(bm25.Query{
		Text:    "kuberntes cluster",
		Correct: true,
		Texts:   func(id uint64) []string { return []string{texts[id]} },
		Explain: true,
	})
	for i, h := range r.Hits {
		fmt.Println(h.ID, len(r.Explanations[i].Terms))
	}
	fmt.Println(r.Corrections[0].Word, r.Corrections[0].Words)
	// Output:
	// 2 2
	// 1 1
	// kuberntes [kubernetes]
}
