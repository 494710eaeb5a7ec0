package work

import (
	"fmt"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// TestCost counts the syncs of a spawn and of a delivery. Of the six of a spawn, the second
// one of the new file finds nothing to write.
func TestCost(t *testing.T) {
	m := faultfs.NewMem()
	h, _, p := start(t, m)
	first, err := p.Spawn(Spawn{Kind: record.Worker, Agent: "crab", Task: "x"}) // creates folders
	must(t, err)
	var syncs int
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "datasync" || c.Op == "sync" || c.Op == "syncdir" {
			syncs++
		}
		return nil
	}
	i, err := p.Spawn(Spawn{Kind: record.Worker, Agent: "crab", Task: "x"})
	must(t, err)
	must(t, begin(i))
	spawn := syncs
	must(t, first.End(Status{record.Done, Signaled}, "x"))
	must(t, i.End(Status{record.Done, Signaled}, "x"))
	end := syncs - spawn
	deliver(t, p)
	delivery := syncs - spawn - end
	if spawn > 6 || end > 2 || delivery > 2 {
		t.Errorf("%d syncs of a spawn with its first message, %d of two ends, %d of a delivery of both", spawn, end, delivery)
	}
	t.Logf("syncs: a spawn %d, two ends %d, a delivery of both %d", spawn, end, delivery)
	m.Hook = nil
	stop(t, h, p)
}

// BenchmarkRecover recovers 1,000 open works of a session.
func BenchmarkRecover(b *testing.B) {
	dir := b.TempDir()
	open := func() (*Home, *Parent) {
		d, err := sessionlog.OpenDir(dir+"/sessions", nil)
		if err != nil {
			b.Fatal(err)
		}
		h := &Home{FS: vfs.OS{}, Path: dir, Sessions: d, Now: time.Now}
		parents, _, err := h.Recover()
		if err != nil {
			b.Fatal(err)
		}
		if len(parents) > 0 {
			return h, parents[0]
		}
		l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
		if err != nil {
			b.Fatal(err)
		}
		p, _, err := h.Open(l.ID())
		if err != nil {
			b.Fatal(err)
		}
		return h, p
	}
	h, p := open()
	for k := range 1000 {
		i, err := p.Spawn(Spawn{Kind: record.Worker, Agent: "crab", Task: fmt.Sprint("task ", k), Interactive: true})
		if err == nil {
			err = i.End(Status{record.Done, Signaled}, "x")
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		b.StopTimer()
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
		if err := h.Sessions.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		h, p = open()
	}
	b.ReportMetric(float64(len(p.Items())), "items")
}
