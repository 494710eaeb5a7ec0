package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"
)

func TestDelayCollection(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(usualPercent))
	percent := func() int {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return int(s[0].Value.Uint64())
	}
	t.Setenv("GOGC", "50")
	delayCollection()
	if p := percent(); p != usualPercent {
		t.Errorf("with GOGC: %d, want %d", p, usualPercent)
	}
	t.Setenv("GOGC", "")
	delayCollection()
	if p := percent(); p != firstPercent {
		t.Errorf("before a collection: %d, want %d", p, firstPercent)
	}
	for range 1000 { // the cleanup runs some time after the collection
		if runtime.GC(); percent() != firstPercent {
			break
		}
	}
	if p := percent(); p != usualPercent {
		t.Errorf("after a collection: %d, want %d", p, usualPercent)
	}
	synctest.Test(t, func(*testing.T) {
		delayCollection()
		time.Sleep(firstTime)
		synctest.Wait()
	})
	if p := percent(); p != usualPercent {
		t.Errorf("after %v: %d, want %d", firstTime, p, usualPercent)
	}
	debug.SetGCPercent(gcPercent)
	endDelay(usualPercent)
	if p := percent(); p != gcPercent {
		t.Errorf("after the choice of the daemon: %d, want %d", p, gcPercent)
	}
}
