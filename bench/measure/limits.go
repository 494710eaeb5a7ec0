package measure

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Limits prints figures with their limits. It collects the figures that miss their
// limit.
type Limits struct{ missed []string }

// Most prints a figure that must not exceed limit.
func (l *Limits) Most(what string, got, limit float64, unit string) {
	l.row(what, got, "at most", limit, unit, got <= limit)
}

// Least prints a figure that must not be less than limit.
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

// Verdict prints the misses to standard error. If gate is set, it returns an error
// for a miss.
func (l *Limits) Verdict(gate bool) error {
	if len(l.missed) == 0 {
		return nil
	}
	fmt.Fprintf(os.Stderr, "missed:\n  %s\n", strings.Join(l.missed, "\n  "))
	if gate {
		return fmt.Errorf("%d figures missed their limits", len(l.missed))
	}
	return nil
}

// Turns runs the functions in n turns. In a turn it calls each function per times in
// a row. It returns the durations of the calls by function.
func Turns(n, per int, fs ...func(i int) error) ([][]time.Duration, error) {
	took := make([][]time.Duration, len(fs))
	for round := range n {
		for k, f := range fs {
			for i := range per {
				start := time.Now()
				if err := f(round*per + i); err != nil {
					return nil, err
				}
				took[k] = append(took[k], time.Since(start))
			}
		}
	}
	return took, nil
}

// Fastest calls each function once per pass and returns the shortest time of each.
func Fastest(passes int, fs ...func() error) ([]time.Duration, error) {
	calls := make([]func(int) error, len(fs))
	for i, f := range fs {
		calls[i] = func(int) error { return f() }
	}
	took, err := Turns(passes, 1, calls...)
	best := make([]time.Duration, len(took))
	for i := range took {
		best[i] = slices.Min(took[i])
	}
	return best, err
}

// Least returns the lesser of two times, or d if best is 0.
func Least(best, d time.Duration) time.Duration {
	if best == 0 {
		return d
	}
	return min(best, d)
}

// LeastOf returns the element-wise minimum of two lists, or took if best is nil. It
// changes took.
func LeastOf(best, took []time.Duration) []time.Duration {
	for i, d := range best {
		took[i] = min(took[i], d)
	}
	return took
}

// Percentile sorts took and returns the p-th percentile.
func Percentile(took []time.Duration, p int) time.Duration {
	slices.Sort(took)
	return took[min(len(took)*p/100, len(took)-1)]
}

// Ratio returns a divided by b.
func Ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// Micros returns a duration in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Millis returns a duration in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
