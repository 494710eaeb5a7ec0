package daemon

import (
	"crabmem/crmem/recall"
)

// spaceAnswer is the answer of one space to a query.
type spaceAnswer struct {
	Space  string
	Answer *recall.Answer
}

// mergeSpaces returns the first limit hits of several spaces, and the space of each
// hit. It orders them by reciprocal rank: the first hit of each space, then the
// second of each, with the spaces in the order of found.
func mergeSpaces(found []spaceAnswer, limit int) (*recall.Answer, []string) {
	if len(found) == 1 {
		spaces := make([]string, len(found[0].Answer.Hits))
		for i := range spaces {
			spaces[i] = found[0].Space
		}
		return found[0].Answer, spaces
	}
	merged := &recall.Answer{Hits: []recall.Hit{}}
	var spaces []string
	most := 0
	for _, f := range found {
		merged.Query = f.Answer.Query
		merged.Total += f.Answer.Total
		merged.Searched += f.Answer.Searched
		merged.Meaning = merged.Meaning.Merge(f.Answer.Meaning)
		merged.Corrections = append(merged.Corrections, f.Answer.Corrections...)
		most = max(most, len(f.Answer.Hits))
	}
	for rank := range most {
		for _, f := range found {
			if rank < len(f.Answer.Hits) && len(merged.Hits) < limit {
				merged.Hits = append(merged.Hits, f.Answer.Hits[rank])
				spaces = append(spaces, f.Space)
			}
		}
	}
	return merged, spaces
}
