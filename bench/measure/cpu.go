package measure

import (
	"time"

	"crabmem/crmem/recalleval"
)

// CPU returns [recalleval.CPUTime].
func CPU() time.Duration { return recalleval.CPUTime() }
