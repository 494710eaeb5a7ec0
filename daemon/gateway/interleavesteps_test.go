package gateway

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// next returns what a chat sends next: its messages and another one, the same with one
// edited and the later ones removed, or up to one that has an answer.
func (w *world) next(c *oneChat, private bool) []chatMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := []string{"hi", "and then?", " go on "}[w.rng.IntN(3)]
	if private || w.rng.IntN(2) == 0 {
		w.n++
		text = fmt.Sprintf("text %d of %s", w.n, c.user)
	}
	var mine []int
	for i, m := range c.messages {
		if m.Role == "user" {
			mine = append(mine, i)
		}
	}
	list := slices.Clone(c.messages)
	if kind := w.rng.IntN(6); kind < 2 && len(mine) > 0 {
		at := mine[w.rng.IntN(len(mine))]
		if kind == 0 && !private {
			w.counts["regenerations"]++
			return list[:at+1]
		}
		w.counts["edits"]++
		list = list[:at]
	}
	return append(list, chatMessage{"user", chatContent(text)})
}

// step does one thing with one or two chats.
func (w *world) step() {
	w.mu.Lock()
	c, other, kind := w.chats[w.rng.IntN(len(w.chats))], w.chats[w.rng.IntN(len(w.chats))], w.rng.IntN(12)
	clear(w.asked)
	w.user, w.failing, w.cancel = c.user, kind == 0, nil
	ctx := w.r.t.Context()
	if kind == 1 {
		ctx, w.cancel = context.WithCancel(ctx)
		defer w.cancel()
	}
	w.mu.Unlock()
	switch {
	case kind == 0: // the provider fails
		messages := w.next(c, false)
		old := w.begin(c, messages)
		if _, _, status := w.send(ctx, c, messages, ""); status == 200 {
			w.r.t.Errorf("%s: an answer of a provider that fails", w.what)
		}
		delete(w.model.now, old)
		w.counts["failed runs"]++
	case kind == 1: // the client disconnects
		messages := w.next(c, true)
		old := w.begin(c, messages)
		if answer, session, status := w.send(ctx, c, messages, ""); status == 200 {
			w.end(c, messages, answer, session)
		} else {
			delete(w.model.now, old)
		}
		w.counts["canceled runs"]++
	case kind < 4: // two continuations at the same time, of one chat or of two
		if kind == 2 {
			other = c
		}
		w.together(c, other)
	case kind == 4 && c.session != "":
		w.named(c)
	case kind == 5 && c.session != "":
		w.compact(c)
	default:
		w.turn(c)
	}
}

// turn sends one message, and compares its session with the model.
func (w *world) turn(c *oneChat) {
	messages := w.next(c, false)
	want := w.begin(c, messages)
	answer, session, status := w.send(w.r.t.Context(), c, messages, "")
	_, known := w.model.now[session]
	switch {
	case status != 200:
		w.r.t.Fatalf("%s: status %d", w.what, status)
	case want != "" && session != want || want == "" && known:
		w.r.t.Errorf("%s: %q continues in %s, want %q", w.what, messages, session, want)
	case want != "":
		w.counts["continued"]++
	default:
		w.counts["sessions"]++
	}
	w.end(c, messages, answer, session)
}

// together sends two messages concurrently: at most one continues the session.
func (w *world) together(a, b *oneChat) {
	chats, messages := []*oneChat{a, b}, [][]chatMessage{w.next(a, true), w.next(b, true)}
	want := []string{w.begin(a, messages[0]), w.begin(b, messages[1])}
	type result struct {
		answer, session string
		status          int
	}
	results := make([]result, 2)
	var wg sync.WaitGroup
	for i := range chats {
		wg.Go(func() {
			r := &results[i]
			r.answer, r.session, r.status = w.send(w.r.t.Context(), chats[i], messages[i], "")
		})
	}
	wg.Wait()
	if results[0].session == results[1].session {
		w.r.t.Errorf("%s: two concurrent messages in the session %s", w.what, results[0].session)
	}
	for i := range chats {
		r := &results[i]
		if r.status != 200 {
			w.r.t.Fatalf("%s: status %d", w.what, r.status)
		}
		if taken := want[i] != "" && want[0] == want[1] && results[1-i].session == want[i]; want[i] != "" && r.session != want[i] && !taken {
			w.r.t.Errorf("%s: %q continues in %s, want %q", w.what, messages[i], r.session, want[i])
		}
	}
	for i := range chats {
		w.end(chats[i], messages[i], results[i].answer, results[i].session)
	}
	w.counts["concurrent messages"] += 2
}

// named names the session of the last answer, which may have gone on.
func (w *world) named(c *oneChat) {
	messages := w.next(c, false)
	w.begin(c, messages)
	prior := messages[:len(messages)-1]
	compared := slices.ContainsFunc(prior, func(m chatMessage) bool { return m.Role != "system" })
	if !compared {
		return // the message continues the session, whatever it contains
	}
	want := 409
	if w.model.now[c.session] == textOf(trimmed(prior), c.header) {
		want = 200
	}
	answer, session, status := w.send(w.r.t.Context(), c, messages, c.session)
	if status != want {
		w.r.t.Errorf("%s: %q in the session %s: status %d, want %d", w.what, messages, c.session, status, want)
	}
	if status == 200 {
		w.end(c, messages, answer, session)
	}
	w.counts["named sessions"]++
}

// compact replaces the messages of a session by a summary.
func (w *world) compact(c *oneChat) {
	p := w.r.do("ann", "POST", "/v1/sessions/"+c.session+"/compact", object{})
	if p.StatusCode == 200 {
		w.counts["compactions"]++
	}
}
