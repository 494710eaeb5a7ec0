package crmem

// Parts of the ranking that a test leaves out.
const (
	WithoutAnswers   = partAnswers
	WithoutPrevious  = partPrevious
	WithoutNext      = partNext
	WithoutNeighbors = partNeighbors
	WithoutPrior     = partPrior
	WithoutEvidence  = partEvidence
	WithoutDates     = partDates
	WithoutAll       = partContext | partDates
)

// SetWithout makes the searches of a store leave parts of the ranking out.
func SetWithout(s *Store, parts uint8) { s.without = parts }
