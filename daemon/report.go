package daemon

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"crabmem/daemon/wire/pb"
)

// encode is JSON as the commands write it.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// report responds with the output of a command.
func (r *request) report(v any, warnings []string) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Report{Report: &pb.Report{Json: b, Warnings: warnings}}})
}

// progressEvery is the time between two progress reports to a client.
const progressEvery = 100 * time.Millisecond

// progress returns a function that sends progress to the client, or nil if the
// client does not request it.
func (r *request) progress(wanted bool, label string) func(done, total int) {
	if !wanted {
		return nil
	}
	var mu sync.Mutex // it may be called by several goroutines
	var last time.Time
	return func(done, total int) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(last) >= progressEvery {
			last = now
			// If the connection ends, the request ends too.
			_ = r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Progress{Progress: &pb.Progress{
				Label: label, Done: uint64(max(done, 0)), Total: uint64(max(total, 0))}}})
		}
	}
}

// lines sends the client the planned changes.
func (r *request) lines(label string, list []string) error {
	for size, from, i := 0, 0, 0; ; i++ {
		if i < len(list) && size < partSize {
			size += len(list[i])
			continue
		}
		if err := r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Progress{Progress: &pb.Progress{Label: label, Lines: list[from:i]}}}); err != nil {
			return err
		}
		if i == len(list) {
			return nil
		}
		size, from = len(list[i]), i
	}
}
