package measure

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Gate is the minimum ratio of a peer's figure to the figure of the first engine.
type Gate struct {
	What  string
	Of    func(Times) time.Duration
	Least float64 // minimum ratio; 0 means no minimum
}

// Figures for the comparison of engines.
var (
	SearchP50 = func(t Times) time.Duration { return t.SearchP50 }
	SearchP99 = func(t Times) time.Duration { return t.SearchP99 }
	Synthetic = func(t Times) time.Duration { return t.Synthetic }
	BuildCPU  = func(t Times) time.Duration { return t.BuildCPU }
	Insert    = func(t Times) time.Duration { return t.Insert }
	Update    = func(t Times) time.Duration { return t.Update }
	Remove    = func(t Times) time.Duration { return t.Remove }
)

// Compare writes the figures of all engines, and the ratio of each peer to the first
// engine. It collects the ratios that miss their gate.
func (l *Limits) Compare(w io.Writer, times []Times, gates map[string][]Gate) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "engine\tbuild CPU\tbuild wall\theap/doc\tsearch p50\tsearch p99\tsynthetic\tinsert\tupdate\tremove\t\n")
	for _, t := range times {
		fmt.Fprintf(tw, "%s\t%.2fs\t%.2fs\t%.0f B\t%v\t%v\t%v\t%v\t%v\t%v\t\n", t.Engine, t.BuildCPU.Seconds(), t.BuildWall.Seconds(),
			t.HeapPerDoc, round(t.SearchP50), round(t.SearchP99), round(t.Synthetic), round(t.Insert), round(t.Update), round(t.Remove))
	}
	tw.Flush()
	if len(times) == 1 {
		return
	}
	fmt.Fprintln(w)
	tw = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "ratio\tpeer\tmeasured\trequired\t\t\n")
	for _, t := range times[1:] {
		for _, g := range gates[t.Engine] {
			ratio := Ratio(g.Of(t), max(g.Of(times[0]), 1))
			verdict, required := "", "-"
			if g.Least > 0 {
				required = fmt.Sprintf("%.3g", g.Least)
				verdict = "ok"
				if ratio < g.Least {
					verdict = "MISSED"
					l.missed = append(l.missed, fmt.Sprintf("%s against %s: %.2f, required %.3g", g.What, t.Engine, ratio, g.Least))
				}
			}
			fmt.Fprintf(tw, "%s\t%s\t%.2f\t%s\t%s\t\n", g.What, t.Engine, ratio, required, verdict)
		}
	}
	tw.Flush()
}

func round(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Millisecond:
		return d.Round(100 * time.Microsecond)
	case d > 100*time.Microsecond:
		return d.Round(time.Microsecond)
	}
	return d.Round(10 * time.Nanosecond)
}
