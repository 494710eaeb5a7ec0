package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"crabmem/bench/measure"
)

// Limits of the gateway during an attack by an untrusted key.
const (
	attackRatio  = 3   // p99 of a trusted key, times that of the idle gateway
	attackMemory = 256 // MiB above the memory of the idle gateway
	attackers    = 64  // slow bodies, and clients that send large ones
	attackPause  = 100 * time.Millisecond
)

// attacked measures the recalls of a trusted key while an untrusted key sends slow bodies,
// bodies of 9 MB, lists of 2.3 million aliases, and messages to the webhook.
func (h *httpLoad) attacked(l *measure.Limits, queries []string) error {
	idle, err := h.recallTimes(queries)
	if err != nil {
		return err
	}
	before, err := h.resident()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	large := [][]byte{[]byte(`{"name":"a","content":"` + strings.Repeat("x", 9<<20-100) + `"}`), []byte(`{"name":"a","content":"b","aliases":["a"` + strings.Repeat(`,"a"`, 2_300_000) + `]}`)}
	for i := range attackers {
		wg.Go(func() { h.slowBody(ctx) })
		wg.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				if n%3 == 2 {
					h.attack(ctx, "/webhook/send", fmt.Appendf(nil, `{"conversation_id":"c%d","content":"x"}`, n%1000))
				} else {
					h.attack(ctx, "/v1/memories", large[n%3])
				}
				select {
				case <-ctx.Done():
				case <-time.After(attackPause * attackers / 8):
				}
			}
		})
	}
	peak, sampled := before, make(chan struct{})
	go func() { // ends with ctx
		defer close(sampled)
		for ctx.Err() == nil {
			if now, err := h.resident(); err == nil {
				peak = max(peak, now)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	time.Sleep(time.Second)
	during, err := h.recallTimes(queries)
	cancel()
	<-sampled
	if err != nil {
		return err
	}
	quiet, attacked := measure.Percentile(idle, 99), measure.Percentile(during, 99)
	fmt.Printf("attack by an untrusted key: recall of a trusted key p99 %v, idle %v; memory %.1f MiB, idle %.1f MiB\n", attacked, quiet, peak/1024, before/1024)
	l.Most("recall p99 of a trusted key in an attack, times idle", measure.Ratio(attacked, quiet), attackRatio, "")
	l.Most("memory of the gateway in an attack, above idle", (peak-before)/1024, attackMemory, "MiB")
	return nil
}

// recallTimes returns the times of recalls with the trusted key.
func (h *httpLoad) recallTimes(queries []string) (took []time.Duration, err error) {
	for _, q := range queries {
		began := time.Now()
		if _, err := h.call("POST", "/v1/recall", fmt.Appendf(nil, `{"query":%q}`, q)); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

// slowBody sends the beginning of bodies with the untrusted key, until ctx ends.
func (h *httpLoad) slowBody(ctx context.Context) {
	for ctx.Err() == nil {
		c, err := net.Dial("tcp", h.addr)
		if err != nil {
			return
		}
		stop := context.AfterFunc(ctx, func() { c.Close() })
		fmt.Fprintf(c, "POST /v1/recall HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 500000\r\n\r\n{", h.addr, h.low)
		_, _ = io.Copy(io.Discard, c) // until the gateway closes it
		stop()
		c.Close()
		select {
		case <-ctx.Done():
		case <-time.After(attackPause):
		}
	}
}

// attack sends a request with the untrusted key. Its response does not matter.
func (h *httpLoad) attack(ctx context.Context, path string, body []byte) {
	q, err := http.NewRequestWithContext(ctx, "POST", "http://"+h.addr+path, bytes.NewReader(body))
	if err != nil {
		return
	}
	q.Header.Set("Authorization", "Bearer "+h.low)
	q.Header.Set("Content-Type", "application/json")
	if p, err := http.DefaultClient.Do(q); err == nil {
		_, _ = io.Copy(io.Discard, p.Body)
		p.Body.Close()
	}
}
