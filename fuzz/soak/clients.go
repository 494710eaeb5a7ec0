package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/tree"
	"crabmem/daemon/agent"
	"crabmem/daemon/client"
	"crabmem/daemon/model"
	"crabmem/daemon/op"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
)

// request sends one request of a random kind. It may disconnect during the
// response.
func (s *soak) request(ctx context.Context, r *rand.Rand) {
	s.did[opRequests].Add(1)
	if r.IntN(6) == 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(20_000))*time.Microsecond)
		defer cancel()
		s.did[opHangUps].Add(1)
	}
	c := &client.Client{Addr: s.addr}
	defer c.Close()
	name := fmt.Sprintf("entry %d", r.IntN(200))
	err := s.requests(ctx, c, r, name)
	if err == nil || over(ctx) {
		return
	}
	var refused *client.Error
	if !errors.As(err, &refused) && !errors.Is(err, tree.ErrTree) && !errors.Is(err, tree.ErrChanged) {
		s.odd(fmt.Errorf("request: %w", err))
	}
}

// dump writes the entries as a tree, as crabmem dump does.
func (s *soak) dump() error {
	store, err := crmem.Open(filepath.Join(s.home, "memory.db"), &crmem.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	_, err = tree.Dump(store, filepath.Join(s.home, "tree"), &tree.DumpOptions{Force: true})
	return errors.Join(err, store.Close())
}

func (s *soak) requests(ctx context.Context, c *client.Client, r *rand.Rand, name string) (err error) {
	id := func() string {
		l, err := op.ListSessions.Do(ctx, c, op.SessionFilter{})
		if err != nil || len(l.Items) == 0 {
			return "none"
		}
		return l.Items[r.IntN(len(l.Items))].ID
	}
	switch r.IntN(28) {
	case 0, 1, 2:
		size := r.IntN(2000)
		if r.IntN(50) == 0 {
			name, size = longEntry, 4*mib
		}
		_, err = op.Remember.Do(ctx, c, op.Note{Remember: crmem.Remember{Name: name, Content: strings.Repeat("some words ", size/11)}})
	case 3, 4, 5:
		_, err = op.Recall.Do(ctx, c, op.Question{Query: "words of entry", Limit: 5})
	case 6:
		_, err = op.Forget.Do(ctx, c, op.Removal{Name: name})
	case 7:
		_, err = op.ReadEntry(ctx, c, op.EntryName{Name: name})
	case 8:
		for _, err = range op.Entries(ctx, c, op.EntryFilter{Content: r.IntN(4) == 0}) {
			if err != nil || r.IntN(50) == 0 {
				break
			}
		}
	case 9:
		_, err = op.ApplyOps(ctx, c, crmem.Alias{Name: name, Aliases: []string{"alias of " + name}})
	case 10:
		s.tree.Lock()
		err = s.dump()
		s.tree.Unlock()
	case 11:
		s.tree.Lock()
		err = op.LoadTree.Each(ctx, c, op.TreeLoad{Dir: filepath.Join(s.home, "tree"), Merge: true}, func(op.LoadPart) error { return nil })
		s.tree.Unlock()
	case 12:
		_, err = op.Checkpoint.Do(ctx, c, op.None{})
	case 13:
		_, err = op.ReadStats.Do(ctx, c, op.StatsFilter{Index: true})
	case 14:
		_, err = op.ListSessions.Do(ctx, c, op.SessionFilter{Trash: r.IntN(2) == 0})
	case 15:
		_, err = op.ReadLines.Do(ctx, c, op.SessionPage{SessionID: op.SessionID{Session: id()}})
	case 16:
		_, err = op.SearchSessions.Do(ctx, c, op.SessionQuery{Query: "words hello", Tools: r.IntN(20) == 0})
	case 17:
		_, err = op.TitleSession.Do(ctx, c, op.SessionTitle{Session: id(), Title: fmt.Sprintf("title %d", r.IntN(100))})
	case 18, 19, 20:
		_, err = op.DeleteSession.Do(ctx, c, op.SessionID{Session: id()})
	case 21:
		_, err = op.ReadDaemonStats.Do(ctx, c, op.None{})
	case 22:
		_, err = op.ReadConfig.Do(ctx, c, op.None{})
	case 23:
		_, err = op.ListModels.Do(ctx, c, op.None{})
	case 24:
		_, err = op.ListAgents.Do(ctx, c, op.AgentNames{})
	case 25:
		_, err = op.ListCrons.Do(ctx, c, op.None{})
	case 26:
		var list []op.Session
		if list, err = op.ListLoaded.Do(ctx, c, op.None{}); err == nil && len(list) > 0 {
			_, err = op.CompactSession.Do(ctx, c, op.Compaction{Number: list[r.IntN(len(list))].Number})
		}
	case 27:
		_, err = op.ApplyOps(ctx, c, crmem.Add{Name: name, Content: "added"})
	}
	return err
}

// talk runs an agent. It may disconnect during the run.
func (s *soak) talk(ctx context.Context, r *rand.Rand) {
	s.did[opStreams].Add(1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &client.Client{Addr: s.addr}
	defer c.Close()
	texts := []string{"hello there", "hello", "hello again", "note of talk", "stall", "endless", "ask", "run sleep 3; echo done", "run yes | head -c 100000"}
	text := texts[r.IntN(len(texts))]
	who := fmt.Sprintf("talker %d", r.IntN(8))
	hangUp := -1
	if r.IntN(3) == 0 || text == "stall" {
		hangUp = r.IntN(6)
	}
	name := "crab"
	if r.IntN(4) == 0 {
		name = "helper"
	}
	events := 0
	for e, err := range op.StreamMessage.All(ctx, c, op.Message{Agent: name, Content: text, Sender: who, New: r.IntN(10) == 0}) {
		var refused *client.Error
		switch {
		case err != nil && !errors.As(err, &refused) && !over(ctx):
			s.odd(fmt.Errorf("stream: %w", err))
			return
		case err != nil:
			s.did[opEnded].Add(1)
			return
		}
		if e.Kind == agent.AskUser && r.IntN(2) == 0 {
			if list, err := op.ListLoaded.Do(ctx, c, op.None{}); err == nil {
				for _, l := range list {
					if l.Asking {
						_, _ = op.ReplyToRun.Do(ctx, c, op.Reply{Number: l.Number, Content: "this one"}) // another client may have replied
					}
				}
			}
		}
		if events == hangUp {
			s.did[opHangUps].Add(1)
			pause(ctx, time.Duration(r.IntN(200))*time.Millisecond)
			return
		}
		events++
	}
	s.did[opEnded].Add(1)
}

// kill kills a random session or cancels the active run.
func (s *soak) kill(ctx context.Context, r *rand.Rand) {
	pause(ctx, time.Duration(20+r.IntN(100))*time.Millisecond)
	c := &client.Client{Addr: s.addr}
	defer c.Close()
	list, err := op.ListLoaded.Do(ctx, c, op.None{})
	if err != nil || len(list) == 0 {
		return
	}
	s.did[opKills].Add(1)
	id := list[r.IntN(len(list))].Number
	if r.IntN(2) == 0 {
		_, _ = op.CancelRun.Do(ctx, c, op.SessionNumber{Number: id})
	} else {
		_ = endSession(ctx, s.addr, id)
	}
}

// endSession ends a loaded session with a request of RFC 0018.
func endSession(ctx context.Context, addr wire.Addr, id uint64) error {
	c, err := wire.Dial(ctx, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err := c.Write(&pb.ClientMessage{Msg: &pb.ClientMessage_Kill{Kill: &pb.KillMsg{Session: id}}}); err != nil {
		return err
	}
	return c.Read(new(pb.ServerMessage))
}

// reload reloads the configuration. It may also add and remove a model, and set
// the configuration.
func (s *soak) reload(ctx context.Context, r *rand.Rand) {
	pause(ctx, time.Duration(r.IntN(300))*time.Millisecond)
	c := &client.Client{Addr: s.addr}
	defer c.Close()
	s.did[opReloads].Add(1)
	_, err := op.ReloadConfig.Do(ctx, c, op.None{})
	if err == nil && r.IntN(3) == 0 {
		_, err = op.AddModels.Do(ctx, c, model.Provider{Name: "more", Kind: "openai-compatible", BaseURL: s.model.URL, APIKey: "x", Models: []string{"m2"}})
		if err == nil {
			_, err = op.RemoveModel.Do(ctx, c, op.ModelName{Name: "m2"})
		}
	}
	if err == nil && r.IntN(5) == 0 {
		var now op.ConfigText
		if now, err = op.ReadConfig.Do(ctx, c, op.None{}); err == nil {
			_, err = op.SetConfig.Do(ctx, c, op.ConfigChange{Config: now.Config})
		}
	}
	if err != nil && !over(ctx) {
		s.odd(fmt.Errorf("reload: %w", err))
	}
}

// raw connects and sends b. It returns nil if it cannot connect.
func (s *soak) raw(ctx context.Context, b string) net.Conn {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", s.addr.Address)
	if err != nil {
		return nil // the queue of the listener may be full
	}
	_, _ = c.Write([]byte(b))
	return c
}

// subscribeWithoutReading subscribes to events and does not read them.
func (s *soak) subscribeWithoutReading(ctx context.Context, r *rand.Rand) {
	c, err := wire.Dial(ctx, s.addr)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.Write(&pb.ClientMessage{Msg: &pb.ClientMessage_SubscribeEvents{SubscribeEvents: &pb.SubscribeEvents{}}})
	pause(ctx, time.Duration(r.IntN(15))*time.Second)
}

// listen subscribes to events and reads them.
func (s *soak) listen(ctx context.Context, _ *rand.Rand) {
	c := &client.Client{Addr: s.addr}
	defer c.Close()
	for _, err := range op.FollowEvents.All(ctx, c, op.EventFilter{}) {
		if err != nil {
			pause(ctx, 100*time.Millisecond)
			return
		}
		s.did[opEvents].Add(1)
	}
}

// dials opens many connections and sends no requests.
func (s *soak) dials(ctx context.Context, r *rand.Rand) {
	var open []net.Conn
	for range 500 {
		if c := s.raw(ctx, ""); c != nil {
			open = append(open, c)
			s.did[opDials].Add(1)
		}
	}
	pause(ctx, time.Duration(r.IntN(400))*time.Millisecond)
	for _, c := range open {
		c.Close()
	}
}

// half sends part of a length, of a payload, or of another protocol. Then it adds
// single bytes.
func (s *soak) half(ctx context.Context, r *rand.Rand) {
	s.did[opHalves].Add(1)
	starts := []string{"\x00\x00", "\x01\x00\x00\x00" + strings.Repeat("x", 100), "\x00\x00\x00\x05ab", "GET / HTTP/1.1\r\n\r\n", "\xff\xff\xff\xff"}
	if r.IntN(20) == 0 {
		starts = []string{"\x00\xff\xff\xff" + strings.Repeat("x", mib)}
	}
	c := s.raw(ctx, starts[r.IntN(len(starts))])
	if c == nil {
		return
	}
	defer c.Close()
	for range r.IntN(20) {
		pause(ctx, 300*time.Millisecond)
		if _, err := c.Write([]byte{0}); err != nil || ctx.Err() != nil {
			return
		}
	}
}

// flood makes the model send 200 MB.
func (s *soak) flood(ctx context.Context, r *rand.Rand) {
	c := &client.Client{Addr: s.addr}
	defer c.Close()
	s.did[opFloods].Add(1)
	who, id := "flooded", ""
	for e, err := range op.StreamMessage.All(ctx, c, op.Message{Agent: "crab", Content: "flood 200000000", Sender: who, New: true}) {
		if err != nil {
			break
		}
		if e.Kind == agent.Start {
			id = e.Session
		}
	}
	if id != "" {
		_, _ = op.DeleteSession.Do(ctx, c, op.SessionID{Session: id}) // another client may have deleted it
	}
	pause(ctx, time.Duration(2+r.IntN(4))*time.Second)
}
