package search

import "context"

// Parts of the ranking that a test leaves out.
const (
	WithoutCorrections = partCorrect
	WithoutNeighbors   = partBoost
	WithoutTexts       = partRead
	WithoutAll         = WithoutCorrections | WithoutNeighbors | WithoutTexts
)

// SearchWithout is x.Search without some of its parts.
func SearchWithout(x *Index, q Query, parts int) (*Result, error) {
	x.without = parts
	defer func() { x.without = 0 }()
	return x.Search(context.Background(), q)
}
