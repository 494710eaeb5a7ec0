package main

import (
	"context"
	"strconv"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
)

// prunedHistory is the output of prune --history --json.
type prunedHistory struct {
	Before    string `json:"before" jsonschema:"RFC 3339: older changes were removed"`
	Freed     int64  `json:"freed_bytes" jsonschema:"of files"`
	FirstSeq  uint64 `json:"first_change" jsonschema:"number of the oldest change; 0: no change"`
	FirstTime string `json:"first_time" jsonschema:"of the oldest change, RFC 3339; empty if unknown"`
}

// pruneHistory runs prune --history.
func (c *app) pruneHistory(ctx context.Context, before time.Time) error {
	freed, err := writeStore(ctx, c, "prune", op.PruneHistory, op.Age{Before: before})
	if err != nil {
		return err
	}
	p := prunedHistory{Before: before.UTC().Format(time.RFC3339), Freed: freed.Bytes}
	err = c.read(func(s *crmem.Store) error {
		for ch, err := range s.Changes() {
			if err != nil {
				c.Warn("read history: " + err.Error())
			}
			if err != nil || ch.Seq == 0 { // another program made the change
				continue
			}
			p.FirstSeq = ch.Seq
			if !ch.Time.IsZero() {
				p.FirstTime = ch.Time.UTC().Format(time.RFC3339Nano)
			}
			return nil
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.printResult(p, func() { c.Say("freed %s; %s", display.Size(p.Freed), p.reach(c.zone())) })
}

// reach describes from when the history reaches.
func (p *prunedHistory) reach(zone *time.Location) string {
	switch {
	case p.FirstSeq == 0:
		return "the history has no changes"
	case p.FirstTime == "":
		return "the history begins with change " + strconv.FormatUint(p.FirstSeq, 10)
	}
	return "the history begins with change " + strconv.FormatUint(p.FirstSeq, 10) + ", " + display.TimeIn(p.FirstTime, zone)
}
