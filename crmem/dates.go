package crmem

import "crabmem/bm25/analysis"

// dateFactor is the factor of the score of entries of a time that the query names.
const dateFactor = 1.3

// dateFactor returns the factor of each entry for the times that a text names, or nil if
// it names no time. The caller holds mu for reading.
func (s *Store) dateFactor(ix *index, text string) func(id uint64) float64 {
	if s.without&partDates != 0 {
		return nil
	}
	spans := analysis.Spans(text, s.opts.Now())
	if len(spans) == 0 {
		return nil
	}
	return func(id uint64) float64 {
		day := ix.dayOf(s.found(ix, id))
		for _, span := range spans {
			if span.Covers(day) {
				return dateFactor
			}
		}
		return 1
	}
}
