// Package model is a stand-in until the real one is merged.
package model

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"crabmem/sessionlog"
)

type Request struct {
	Model     string
	Messages  []sessionlog.Message
	Tools     []Tool
	Thinking  bool
	MaxTokens int
}
type Tool struct {
	Name, Description string
	Parameters        json.RawMessage
}
type Chunk struct {
	Content, Reasoning string
	Calls              []CallDelta
	Finish             string
	Usage              *Usage
}
type CallDelta struct {
	Index                     int
	ID, Type, Name, Arguments string
}
type Usage struct{ Prompt, Completion, Total int }
type Response struct {
	Message sessionlog.Message
	Finish  string
	Usage   *Usage
}
type Backend interface {
	Send(context.Context, Request) (*Response, error)
	Stream(context.Context, Request) iter.Seq2[Chunk, error]
}
type Registry struct{ b Backend }

func (r *Registry) Send(ctx context.Context, q Request) (*Response, error) { return r.b.Send(ctx, q) }
func (r *Registry) Stream(ctx context.Context, q Request) iter.Seq2[Chunk, error] {
	return r.b.Stream(ctx, q)
}
func (r *Registry) ContextLimit(string) int { return 8192 }
func (r *Registry) Active() string          { return "" }

var ErrOverflow = errors.New("the context is full")
