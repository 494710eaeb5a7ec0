package lint_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/lint"
)

// BenchmarkCheck checks stores of texts of 100 words: with words of a language, and
// with all but four words in common.
func BenchmarkCheck(b *testing.B) {
	for _, kind := range []string{"language", "template"} {
		for _, n := range []int{10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				random := rand.New(rand.NewPCG(1, 1))
				zipf := rand.NewZipf(random, 1.1, 4, 50_000)
				ops := make([]crmem.Op, n)
				for i := range ops {
					words := make([]string, 100)
					for k := range words {
						words[k] = fmt.Sprintf("word%d", k)
						if kind == "language" || k%25 == 0 {
							words[k] = fmt.Sprintf("word%d", zipf.Uint64())
						}
					}
					words[random.IntN(100)] = fmt.Sprintf("[[entry-%d]]", random.IntN(n))
					ops[i] = crmem.Add{Name: fmt.Sprintf("entry-%d", i), Content: strings.Join(words, " ")}
				}
				s := crmem.New(nil)
				defer s.Close()
				if err := s.Apply(ops...); err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					b.ReportMetric(float64(len(lint.Check(s, now))), "findings")
				}
			})
		}
	}
}
