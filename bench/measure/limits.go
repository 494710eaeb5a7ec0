package measure

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Limits prints figures beside what is required of them, and collects those
// that miss it.
type Limits struct{ missed []string }

// Most prints a figure that must not be greater than its limit.
func (l *Limits) Most(what string, got, limit float64, unit string) {
	l.row(what, got, "at most", limit, unit, got <= limit)
}

// Least prints a figure that must not be less than its limit.
func (l *Limits) Least(what string, got, limit float64, unit string) {
	l.row(what, got, "at least", limit, unit, got >= limit)
}

func (l *Limits) row(what string, got float64, word string, limit float64, unit string, ok bool) {
	verdict := "ok"
	if !ok {
		verdict = "MISSED"
		l.missed = append(l.missed, fmt.Sprintf("%s: %.2f%s, %s %.2f", what, got, unit, word, limit))
	}
	fmt.Printf("%-56s %8.2f%-3s %s %.2f  %s\n", what, got, unit, word, limit, verdict)
}

// Verdict lists what was missed. With gate that is an error.
func (l *Limits) Verdict(gate bool) error {
	if len(l.missed) == 0 {
		return nil
	}
	fmt.Fprintf(os.Stderr, "missed:\n  %s\n", strings.Join(l.missed, "\n  "))
	if gate {
		return fmt.Errorf("%d figures missed", len(l.missed))
	}
	return nil
}

// Fastest runs the functions in turn and returns the shortest time of each:
// what is left when nobody else had the machine.
func Fastest(passes int, fs ...func() error) ([]time.Duration, error) {
	best := make([]time.Duration, len(fs))
	for range passes {
		for i, f := range fs {
			start := time.Now()
			if err := f(); err != nil {
				return nil, err
			}
			if d := time.Since(start); best[i] == 0 || d < best[i] {
				best[i] = d
			}
		}
	}
	return best, nil
}
