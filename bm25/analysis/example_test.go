package analysis_test

import (
	"fmt"
	"slices"

	"crabmem/bm25/analysis"
)

func Example() {
	text := "The canary's rate_limit on 2026-03-04"
	fmt.Println(slices.Collect(analysis.Standard.Tokens(text)))
	fmt.Println(slices.Collect(analysis.Plain.Tokens(text)))
	// Output:
	// [the canari rate ratelimit limit on 2026 20260304 03 04]
	// [canary rate limit 2026 03 04]
}

func ExampleAnalyzer_QueryTerms() {
	for term, weight := range analysis.Standard.QueryTerms("userName") {
		fmt.Println(term, weight)
	}
	// Output:
	// usernam 1
	// user 0.5
	// name 0.5
}

func ExamplePhrase_In() {
	p := analysis.NewPhrase("rate limit")
	fmt.Println(p.In("The rate-limit is 5."), p.In("limit the rate"))
	// Output: true false
}
