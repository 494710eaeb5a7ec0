// Package op defines the daemon's operations. An operation is one row: its name,
// its types, what it requires of a caller, and what it does. [Op.Do] carries it out through
// a [Caller].
//
// The daemon serves each row that [Add] returned. To add an operation, add a row to its
// subject's file.
package op

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"crabmem/daemon/errtable"
	"crabmem/daemon/once"
)

// An Effect is what an operation does to the home's data.
type Effect uint8

const (
	Reads   Effect = iota // it changes nothing
	Writes                // it changes entries, sessions, or spaces
	Erases                // it removes data permanently
	Manages               // it changes the daemon until it stops
)

// An Op is an operation: a row. H is what it runs on, [Daemon], I is its request, and O its
// response.
type Op[H, I, O any] struct {
	Name   string // such as spaces.create
	Does   string // one sentence
	Effect Effect
	Need   Need
	Run    func(ctx context.Context, on H, in *I) (O, error)
	// Did returns the effect of a request that may be repeated with a key. nil: the
	// operation ignores the key.
	Did func(in *I, out *O) once.Effect
	row *Row
}

// A Row is an [Op] without its types.
type Row struct {
	Name, Does string
	Family     errtable.Family // of its errors
	Effect     Effect
	Need       Need
	Repeats    bool // a request may be repeated with a key, and has one effect

	request func() any // a new *I
	run     func(ctx context.Context, on, in any) (out any, did *once.Effect, err error)
}

var rows = make(map[string]*Row)

// Add adds a row. Programs call it only to initialize variables.
func Add[H, I, O any](family errtable.Family, o Op[H, I, O]) *Op[H, I, O] {
	if o.Name == "" || o.Does == "" || o.Run == nil || rows[o.Name] != nil {
		panic(fmt.Sprintf("op: the row %q is incomplete or exists", o.Name))
	}
	o.row = &Row{Name: o.Name, Does: o.Does, Family: family, Effect: o.Effect, Need: o.Need, Repeats: o.Did != nil,
		request: func() any { return new(I) },
		run: func(ctx context.Context, on, in any) (any, *once.Effect, error) {
			out, err := o.Run(ctx, on.(H), in.(*I))
			if err != nil || o.Did == nil {
				return out, nil, err
			}
			did := o.Did(in.(*I), &out)
			return out, &did, nil
		}}
	rows[o.Name] = o.row
	return &o
}

// A Caller carries out operations.
type Caller interface {
	// Call decodes the response into out, a pointer.
	Call(ctx context.Context, row *Row, in, out any) error
}

// Do carries out the operation.
func (o *Op[H, I, O]) Do(ctx context.Context, c Caller, in I) (out O, err error) {
	err = c.Call(ctx, o.row, &in, &out)
	return out, err
}

// None is an empty request or response.
type None struct{}

// Find returns the row with a name, or nil.
func Find(name string) *Row { return rows[name] }

// All returns the rows by name.
func All() []*Row {
	list := make([]*Row, 0, len(rows))
	for _, r := range rows {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *Row) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Words returns the name as words, such as create spaces.
func (r *Row) Words() string {
	subject, verb, _ := strings.Cut(r.Name, ".")
	return verb + " " + subject
}

// Request decodes a request.
func (r *Row) Request(body []byte) (any, error) {
	in := r.request()
	if err := requests.Unmarshal(body, in); err != nil {
		return nil, errtable.Invalidf("request %s: %v", r.Name, err)
	}
	return in, nil
}

// Run carries out the operation in this process, and returns the encoded response. did is
// what it changed, if the operation can be repeated with a key.
func (r *Row) Run(ctx context.Context, on, in any) (body []byte, did *once.Effect, err error) {
	out, did, err := r.run(ctx, on, in)
	if err != nil {
		return nil, nil, err
	}
	body, err = Encode(out)
	return body, did, err
}
