package search_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"crabmem/bench/corpus"
	"crabmem/bench/measure"
	"crabmem/sessionlog"
	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/record"
	"crabmem/sessionlog/search"
)

const benchSessions, benchMessages = 2000, 50

// benchTexts are the messages that indexes are measured on: 200 bytes and 500.
func benchTexts() map[string]func(i int) string {
	z := corpus.NewZipf(1)
	return map[string]func(int) string{"200": corpus.Synthetic, "500": z.Doc}
}

// benchDir writes a folder of sessions.
func benchDir(b *testing.B, sessions int, text func(i int) string) *sessionlog.Dir {
	dir := b.TempDir()
	for s := range sessions {
		m := sessionlog.Meta{Agent: fmt.Sprintf("agent%d", s%7), CreatedBy: fmt.Sprintf("user%d", s%11),
			CreatedAt: record.Timestamp(time.Unix(int64(1_700_000_000+60*s), 0)), Title: fmt.Sprintf("session number %d", s)}
		buf := line.AppendMeta(nil, &m)
		for i := range benchMessages {
			role := record.RoleUser
			if i%2 == 1 {
				role = record.RoleAssistant
			}
			buf = line.AppendMessage(buf, &sessionlog.Message{Role: role, Content: text(s*benchMessages + i)})
		}
		name := fmt.Sprintf("agent%d_user%d_%d.jsonl", s%7, s%11, s+1)
		if err := os.WriteFile(filepath.Join(dir, name), buf, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	d, err := sessionlog.OpenDir(dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	return d
}

func newIndex(tb testing.TB, d *sessionlog.Dir, o *search.IndexOptions) *search.Index {
	tb.Helper()
	x, err := search.NewIndex(d, o)
	if err != nil {
		tb.Fatal(err)
	}
	return x
}

// BenchmarkRebuild reports the least CPU and wall time of 100,000 messages.
func BenchmarkRebuild(b *testing.B) {
	for name, text := range benchTexts() {
		b.Run(name, func(b *testing.B) {
			d := benchDir(b, benchSessions, text)
			cpu, wall := time.Hour, time.Hour
			var heap float64
			for b.Loop() {
				before := measuredHeap()
				c, w := measure.CPU(), time.Now()
				x := newIndex(b, d, nil)
				cpu, wall = min(cpu, measure.CPU()-c), min(wall, time.Since(w))
				heap = measuredHeap() - before
				if n := x.Len(); n != benchSessions*(benchMessages+1) {
					b.Fatalf("%d documents", n)
				}
				x.Close()
			}
			b.ReportMetric(float64(cpu.Microseconds())/1000, "cpu-ms")
			b.ReportMetric(float64(wall.Microseconds())/1000, "wall-ms")
			b.ReportMetric(heap/(benchSessions*benchMessages), "heap-B/message")
		})
	}
}

func measuredHeap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkSearch reports percentiles over queries of the least time of 5
// passes.
func BenchmarkSearch(b *testing.B) {
	queries := corpus.NewZipf(1).Queries(500)
	for name, text := range benchTexts() {
		d := benchDir(b, benchSessions, text)
		x := newIndex(b, d, nil)
		for _, c := range []struct {
			name string
			q    search.Query
		}{
			{"ranking", search.Query{Limit: 20, Bare: true}},
			{"windows", search.Query{Limit: 20}},
			{"agent", search.Query{Limit: 20, Bare: true, Agent: "agent3"}},
		} {
			b.Run(name+"/"+c.name, func(b *testing.B) {
				best := make([]time.Duration, len(queries))
				for b.Loop() {
					for i, text := range queries {
						if name == "200" {
							text = corpus.SyntheticQuery
						}
						c.q.Text = text
						start := time.Now()
						if _, err := x.Search(b.Context(), c.q); err != nil {
							b.Fatal(err)
						}
						if t := time.Since(start); best[i] == 0 || t < best[i] {
							best[i] = t
						}
					}
				}
				reportPercentiles(b, best)
			})
		}
		x.Close()
	}
}

// BenchmarkInsert measures the cost of keeping an index of 100,000 messages
// current, and the share of the write.
func BenchmarkInsert(b *testing.B) {
	for name, text := range benchTexts() {
		for _, indexed := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/indexed-%t", name, indexed), func(b *testing.B) {
				d := benchDir(b, benchSessions, text)
				d, err := sessionlog.OpenDir(d.Path(), &sessionlog.Options{Sync: sessionlog.SyncNone})
				if err != nil {
					b.Fatal(err)
				}
				defer d.Close()
				if indexed {
					defer newIndex(b, d, nil).Close()
				}
				l, err := d.Create(sessionlog.Meta{Agent: "agent1", CreatedBy: "bench"})
				if err != nil {
					b.Fatal(err)
				}
				var texts [4096]string
				for i := range texts {
					texts[i] = text(1<<20 + i)
				}
				var times []time.Duration
				cpu := measure.CPU()
				for i := 0; b.Loop(); i++ {
					start := time.Now()
					if err := l.Append(sessionlog.Message{Role: "user", Content: texts[i%len(texts)]}); err != nil {
						b.Fatal(err)
					}
					times = append(times, time.Since(start))
				}
				b.ReportMetric(float64((measure.CPU()-cpu).Nanoseconds())/1000/float64(len(times)), "cpu-µs")
				reportPercentiles(b, times)
			})
		}
	}
}

func reportPercentiles(b *testing.B, times []time.Duration) {
	slices.SortFunc(times, cmp.Compare)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1000, "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1000, "p99-µs")
}
