package client

import (
	"context"
	"errors"
	"iter"
	"runtime/debug"

	"crabmem/daemon/errtable"
	"crabmem/daemon/wire/pb"
)

// Ping asks whether the daemon is there.
func (c *Client) Ping(ctx context.Context) error {
	_, err := call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Ping{Ping: &pb.Ping{}}}, (*pb.ServerMessage).GetPong)
	return err
}

// Hello asks who the daemon is. It is a *SkewError when the daemon does not
// have our operations as this program knows them.
func (c *Client) Hello(ctx context.Context) (*pb.HelloReply, error) {
	version := "unknown"
	if b, ok := debug.ReadBuildInfo(); ok {
		version = b.Main.Version
	}
	h, err := call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Hello{Hello: &pb.HelloMsg{Protocol: pb.Version, Version: version}}}, (*pb.ServerMessage).GetHello)
	if e, ok := errors.AsType[*Error](err); ok && e.Code == 400 {
		return nil, &SkewError{} // it is an empty message to who does not know it
	}
	if err != nil {
		return nil, err
	}
	if h.GetProtocol() != pb.Version {
		return h, &SkewError{Daemon: h.GetVersion(), Protocol: h.GetProtocol()}
	}
	c.mu.Lock()
	c.agreed = true
	c.mu.Unlock()
	return h, nil
}

// Send runs an agent and returns its answer when it is done.
func (c *Client) Send(ctx context.Context, m *pb.SendMsg) (*pb.SendResponse, error) {
	return call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Send{Send: m}}, (*pb.ServerMessage).GetResponse)
}

// Stream runs an agent and returns what happens, as it happens. It ends where
// the run ends, with the error of the run if there is one. To stop before is to
// hang up, which ends the run.
func (c *Client) Stream(ctx context.Context, m *pb.StreamMsg) iter.Seq2[*pb.StreamEvent, error] {
	return func(yield func(*pb.StreamEvent, error) bool) {
		var why *Error // sent before the end
		last := func(r *pb.ServerMessage) bool { return r.GetStream().GetEnd() != nil }
		for r, err := range c.RequestStream(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_Stream{Stream: m}}, last) {
			e := r.GetStream()
			switch {
			case err != nil:
			case e == nil:
				err = &UnexpectedError{r}
			case e.GetError().GetKind() == "notice":
				if !yield(e, nil) { // a notice; the run continues
					return
				}
				continue
			case e.GetError() != nil:
				why = newError(errtable.Other, e.GetError())
				continue
			case e.GetEnd() == nil && e.Event == nil:
				continue // of a newer daemon
			case e.GetEnd() == nil:
				if !yield(e, nil) {
					return
				}
				continue
			case why != nil:
				err = why
			case e.GetEnd().GetError() != "":
				err = &Error{Code: 500, Message: e.GetEnd().GetError()}
			}
			if err != nil {
				yield(nil, err)
			}
			return
		}
	}
}

// Cancel ends the run of a live session.
func (c *Client) Cancel(ctx context.Context, session uint64) error {
	_, err := callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Cancel{Cancel: &pb.CancelMsg{Session: session}}}, (*pb.ServerMessage).GetPong)
	return err
}

// ReplyToAsk answers the question of a live session.
func (c *Client) ReplyToAsk(ctx context.Context, session uint64, content string) error {
	_, err := call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_ReplyToAsk{ReplyToAsk: &pb.ReplyToAsk{Session: session, Content: content}}}, (*pb.ServerMessage).GetPong)
	return err
}

// Sessions lists the live sessions.
func (c *Client) Sessions(ctx context.Context) ([]*pb.SessionInfo, error) {
	l, err := call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Sessions{Sessions: &pb.Sessions{}}}, (*pb.ServerMessage).GetSessions)
	return l.GetSessions(), err
}

// Kill ends a live session. Its file stays.
func (c *Client) Kill(ctx context.Context, session uint64) error {
	_, err := call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Kill{Kill: &pb.KillMsg{Session: session}}}, (*pb.ServerMessage).GetPong)
	return err
}

// Compact returns a summary of a live session, and changes nothing.
func (c *Client) Compact(ctx context.Context, session uint64) (string, error) {
	r, err := call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Compact{Compact: &pb.CompactMsg{Session: session}}}, (*pb.ServerMessage).GetCompact)
	return r.GetSummary(), err
}

// CompactSession replaces the history of a live session by a summary.
func (c *Client) CompactSession(ctx context.Context, m *pb.CompactSessionMsg) (*pb.CompactSessionReply, error) {
	return callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_CompactSession{CompactSession: m}}, (*pb.ServerMessage).GetCompacted)
}

// Events returns what happens in all sessions, from now on.
func (c *Client) Events(ctx context.Context) iter.Seq2[*pb.AgentEventMsg, error] {
	return func(yield func(*pb.AgentEventMsg, error) bool) {
		m := &pb.ClientMessage{Msg: &pb.ClientMessage_SubscribeEvents{SubscribeEvents: &pb.SubscribeEvents{}}}
		for r, err := range c.RequestStream(ctx, m, func(*pb.ServerMessage) bool { return false }) {
			e := r.GetAgentEvent()
			if err == nil && e == nil {
				err = &UnexpectedError{r}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Config returns the configuration as JSON, without secrets.
func (c *Client) Config(ctx context.Context) (string, error) {
	r, err := call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_GetConfig{GetConfig: &pb.GetConfig{}}}, (*pb.ServerMessage).GetConfig)
	return r.GetConfig(), err
}

// SetConfig replaces the configuration and returns what there is to know
// about it.
func (c *Client) SetConfig(ctx context.Context, config string) (notes []string, err error) {
	r, err := call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_SetConfig{SetConfig: &pb.SetConfigMsg{Config: config}}}, (*pb.ServerMessage).GetPong)
	return r.GetNotes(), err
}

// Reload has the daemon read its configuration again.
func (c *Client) Reload(ctx context.Context) (notes []string, err error) {
	r, err := call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Reload{Reload: &pb.ReloadMsg{}}}, (*pb.ServerMessage).GetPong)
	return r.GetNotes(), err
}

// Stats returns figures of the daemon.
func (c *Client) Stats(ctx context.Context) (*pb.DaemonStats, error) {
	return call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_GetStats{GetStats: &pb.GetStats{}}}, (*pb.ServerMessage).GetStats)
}

// CreateCron adds an entry to the cron table.
func (c *Client) CreateCron(ctx context.Context, m *pb.CreateCronMsg) (*pb.CronInfo, error) {
	return call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_CreateCron{CreateCron: m}}, (*pb.ServerMessage).GetCronInfo)
}

// DeleteCron removes an entry of the cron table.
func (c *Client) DeleteCron(ctx context.Context, id uint64) error {
	_, err := call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_DeleteCron{DeleteCron: &pb.DeleteCronMsg{Id: id}}}, (*pb.ServerMessage).GetPong)
	return err
}

// Crons lists the cron table.
func (c *Client) Crons(ctx context.Context) ([]*pb.CronInfo, error) {
	r, err := call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_ListCrons{ListCrons: &pb.ListCronsMsg{}}}, (*pb.ServerMessage).GetCronList)
	return r.GetCrons(), err
}

// Models lists the models.
func (c *Client) Models(ctx context.Context) (*pb.ModelList, error) {
	return callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_ListModels{ListModels: &pb.ListModelsMsg{}}}, (*pb.ServerMessage).GetModels)
}

// SwitchModel makes a model the active one.
func (c *Client) SwitchModel(ctx context.Context, model string) (*pb.ModelList, error) {
	return callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_SwitchModel{SwitchModel: &pb.SwitchModelMsg{Model: model}}}, (*pb.ServerMessage).GetModels)
}

// AddModels adds a provider and its models.
func (c *Client) AddModels(ctx context.Context, m *pb.AddModelsMsg) (*pb.ModelList, error) {
	return callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_AddModels{AddModels: m}}, (*pb.ServerMessage).GetModels)
}

// RemoveModel removes a model.
func (c *Client) RemoveModel(ctx context.Context, model string) (*pb.ModelList, error) {
	return callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_RemoveModel{RemoveModel: &pb.RemoveModelMsg{Model: model}}}, (*pb.ServerMessage).GetModels)
}

// Agents lists the agents.
func (c *Client) Agents(ctx context.Context) ([]*pb.AgentInfo, error) {
	r, err := callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_ListAgents{ListAgents: &pb.ListAgentsMsg{}}}, (*pb.ServerMessage).GetAgents)
	return r.GetAgents(), err
}
