package gateway

import (
	"context"
	"encoding/json"

	"github.com/coder/websocket"
)

// frameIn is a frame of a client.
type frameIn struct {
	Type    string          `json:"type"`
	Token   string          `json:"token"`
	Agent   string          `json:"agent"`
	Content string          `json:"content"`
	Session string          `json:"session"`
	ID      json.RawMessage `json:"id"`
}

// frameOut is a frame of the server.
type frameOut struct {
	Type      string          `json:"type"`
	ID        json.RawMessage `json:"id,omitempty"`
	SessionID string          `json:"session_id,omitempty"`
	Session   string          `json:"session,omitempty"`
	Agent     string          `json:"agent,omitempty"`
	Content   *string         `json:"content,omitempty"`
	Code      int             `json:"code,omitempty"`
	Message   string          `json:"message,omitempty"`
	Event     any             `json:"event,omitempty"`
}

// frames is the sink of a run on a connection.
type frames struct {
	*socket
	id json.RawMessage
}

func (f *frames) event(name string, data any) error {
	if c, ok := data.(chunk); ok {
		return f.write(frameOut{Type: "stream_chunk", ID: f.id, Content: &c.Content})
	}
	if !f.named.Load() {
		return nil
	}
	return f.write(frameOut{Type: name, ID: f.id, Event: data})
}

// fail sends the problem of an error.
func (s *socket) fail(id json.RawMessage, err error) { _ = s.write(s.problem(id, err)) }

// problem returns the frame of an error.
func (s *socket) problem(id json.RawMessage, err error) frameOut {
	p := s.g.problem(err)
	if p.hidden != nil {
		s.g.o.Log.Error("request failed", "path", "/ws", "error", p.hidden)
	}
	text := p.Detail
	if p.Remedy != "" {
		text += ": " + p.Remedy
	}
	f := frameOut{Type: "error", ID: id, Code: p.Status, Message: text}
	if s.named.Load() {
		f.Type = p.event()
	}
	return f
}

// write sends a frame. An error ends the connection, which ends the loop.
func (s *socket) write(f frameOut) error {
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	// A context that ends closes the connection, and its reason does not arrive: the frame
	// ends by its time, or by Close.
	ctx, cancel := context.WithTimeout(context.Background(), frameTime)
	defer cancel()
	err = s.conn.Write(ctx, websocket.MessageText, b)
	if err != nil {
		s.conn.CloseNow()
	}
	return err
}
