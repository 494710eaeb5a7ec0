// Package op defines the daemon's operations. An operation is one row: its name,
// its types, what it requires of a caller, and what it does. [Action.Do] carries it out through
// a [Caller].
//
// The daemon serves each row that [Add] returned. To add an operation, add a row to its
// subject's file.
package op

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"

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

// An Op is an operation: a row. H is what it runs on, [Daemon] or [Store]; I is its
// request, and O its response.
type Op[H, I, O any] struct {
	Name   string // such as spaces.create
	Does   string // one sentence
	Effect Effect
	Need   Need
	Retry  bool // a client repeats it after a lost response; operations with Reads need no mark
	Run    func(ctx context.Context, on H, in *I) (O, error)
	// Permit returns an error for a request that the identity may not make, if the identity
	// is not an admin. Rows with NeedSession, NeedChanges, and NeedMessages have it.
	Permit func(on H, in *I) error
	// Files is set if the response contains texts of files. Invalid UTF-8 in them is replaced.
	Files bool
	// Did returns the effect of a request that may be repeated with a key. nil: the
	// operation ignores the key.
	Did func(in *I, out *O) once.Effect
	// Again returns the response to a request that repeats an earlier one. nil: the error
	// is of the kind repeated.
	Again func(o *Outcome) (O, error)
	// NoStore returns the response for a space without a store. nil: the error is
	// [crmem.ErrNoStore].
	NoStore func() O

	Path   string // method and path over HTTP, such as GET /v1/crons/{id}; empty: none
	Status int    // of a success over HTTP; 0: 200, or 204 without a response
	Fails  []int  // statuses of its refusals over HTTP, besides those of each operation

	Tool *Tool // over the Model Context Protocol; nil: none
}

// A Seq is an operation whose response is a sequence of parts, each of at most some
// [PartSize] bytes. Run sends them.
type Seq[H, I, P any] struct {
	Name, Does string
	Effect     Effect
	Need       Need
	Run        func(ctx context.Context, on H, in *I, send func(P) error) error
	Permit     func(on H, in *I) error // as in [Op]
	Files      bool                    // as in [Op]
	Waits      bool                    // it waits for other requests, and takes no place of theirs
}

// PartSize is the approximate size of a part of a [Seq] in bytes.
const PartSize = 1 << 20

// An Action is an [Op] that [Add] added, and a Series is a [Seq] that [AddSeq] added. Do,
// Each, and All are the only ways to carry them out, so that each caller passes the same checks.
type (
	Action[I, O any] struct{ row *Row }
	Series[I, P any] struct{ row *Row }
)

// A Row is an [Op] or a [Seq] without its types.
type Row struct {
	Name, Does string
	Family     errtable.Family // of its errors
	Effect     Effect
	Need       Need
	Repeats    bool  // a request may be repeated with a key, and has one effect
	Retry      bool  // a client may repeat a request after a lost response
	Parts      bool  // the response is a sequence
	Waits      bool  // as in [Seq]
	OnStore    bool  // it runs on a [Store], else on a [Daemon]
	Tool       *Tool // nil: no tool

	in, out reflect.Type // of the request, and of the response or each part
	permit  func(on, in any) error
	path    func() *Path                  // nil: none
	again   func(o *Outcome) (any, error) // nil: none
	noStore func() any                    // nil: none
	// run sends each part of the response. It returns the effect even if send fails.
	run func(ctx context.Context, on, in any, send func(any) error) (did *once.Effect, err error)
}

var rows = make(map[string]*Row)

func add[H, I any](family errtable.Family, r *Row, permit func(on H, in *I) error) *Row {
	if r.Name == "" || r.Does == "" || rows[r.Name] != nil {
		panic(fmt.Sprintf("op: the row %q is incomplete or exists", r.Name))
	}
	if permit == nil && (r.Need == NeedSession || r.Need == NeedChanges || r.Need == NeedMessages) {
		panic(fmt.Sprintf("op: the row %q does not check the session's owner", r.Name))
	}
	r.Family, r.Retry = family, r.Retry || r.Effect == Reads
	_, r.OnStore = any(*new(H)).(Store)
	r.in = reflect.TypeFor[I]()
	r.permit = func(on, in any) error {
		if permit == nil {
			return nil
		}
		return permit(on.(H), in.(*I))
	}
	rows[r.Name] = r
	return r
}

// Add adds a row. Programs call it only to initialize variables.
func Add[H, I, O any](family errtable.Family, o Op[H, I, O]) *Action[I, O] {
	row := add[H, I](family, &Row{Name: o.Name, Does: o.Does, Effect: o.Effect, Need: o.Need, Repeats: o.Did != nil, Retry: o.Retry,
		Tool: o.Tool, out: reflect.TypeFor[O](),
		run: func(ctx context.Context, on, in any, send func(any) error) (did *once.Effect, err error) {
			out, err := o.Run(ctx, on.(H), in.(*I))
			if err != nil {
				return nil, err
			}
			if o.Files {
				mend(reflect.ValueOf(&out))
			}
			if o.Did != nil {
				e := o.Did(in.(*I), &out)
				did = &e
			}
			return did, send(out)
		}}, o.Permit)
	if o.Again != nil {
		row.again = func(did *Outcome) (any, error) { return o.Again(did) }
	}
	if o.NoStore != nil {
		row.noStore = func() any { return o.NoStore() }
	}
	if o.Path == "" && o.Tool != nil {
		o.Path = "POST /v1/tools/" + o.Tool.Name
	}
	if o.Path != "" {
		row.path = sync.OnceValue(func() *Path { return newPath(o.Path, o.Status, o.Fails, row.in, row.out) })
	}
	return &Action[I, O]{row}
}

// AddSeq adds a row. Programs call it only to initialize variables.
func AddSeq[H, I, P any](family errtable.Family, s Seq[H, I, P]) *Series[I, P] {
	return &Series[I, P]{add[H, I](family, &Row{Name: s.Name, Does: s.Does, Effect: s.Effect, Need: s.Need, Parts: true, Waits: s.Waits, out: reflect.TypeFor[P](),
		run: func(ctx context.Context, on, in any, send func(any) error) (*once.Effect, error) {
			return nil, s.Run(ctx, on.(H), in.(*I), func(p P) error {
				if s.Files {
					mend(reflect.ValueOf(&p))
				}
				return send(p)
			})
		}}, s.Permit)}
}

// All carries out the operation, and returns the parts and, last, the error, if any. A
// caller that breaks out of the loop ends the operation.
func (s *Series[I, P]) All(ctx context.Context, c Caller, in I) iter.Seq2[*P, error] {
	return func(yield func(*P, error) bool) {
		broken := errors.New("the caller has enough")
		err := s.Each(ctx, c, in, func(p P) error {
			if !yield(&p, nil) {
				return broken
			}
			return nil
		})
		if err != nil && err != broken {
			yield(nil, err)
		}
	}
}

// A Caller carries out operations.
type Caller interface {
	// Call decodes each part of the response into out, a pointer, and then calls part. An
	// operation without parts has one.
	Call(ctx context.Context, row *Row, in, out any, part func() error) error
}

// Do carries out the operation, if the request is valid.
func (o *Action[I, O]) Do(ctx context.Context, c Caller, in I) (out O, err error) {
	err = o.row.Do(ctx, c, &in, &out)
	return out, err
}

// Each carries out the operation, and calls f with each part. An error of f ends it.
func (s *Series[I, P]) Each(ctx context.Context, c Caller, in I, f func(P) error) error {
	var p P
	return c.Call(ctx, s.row, &in, &p, func() error {
		part := p
		p = *new(P)
		return f(part)
	})
}

// Local carries out operations in this process.
type Local struct {
	On any // a [Daemon] or a [Store]
}

// Call is a method of [Caller].
func (l Local) Call(ctx context.Context, row *Row, in, out any, part func() error) error {
	_, err := row.run(ctx, l.On, in, func(v any) error {
		reflect.ValueOf(out).Elem().Set(reflect.ValueOf(v))
		return part()
	})
	return err
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

// HTTP returns where a gateway serves the operation, or nil. It panics if the path is
// invalid. The first call computes the result, so that programs without a gateway start fast.
func (r *Row) HTTP() *Path {
	if r.path == nil {
		return nil
	}
	return r.path()
}

// Subject returns what the operation is about, such as spaces.
func (r *Row) Subject() string {
	subject, _, _ := strings.Cut(r.Name, ".")
	return subject
}

// Words returns the name as words, such as create spaces.
func (r *Row) Words() string {
	_, verb, _ := strings.Cut(r.Name, ".")
	return verb + " " + r.Subject()
}

// NewRequest returns a pointer to an empty request, and NewResponse to an empty response.
func (r *Row) NewRequest() any  { return reflect.New(r.in).Interface() }
func (r *Row) NewResponse() any { return reflect.New(r.out).Interface() }

// Do carries out the operation, which has one part, if the request is valid. in is a pointer to a request, and out
// a pointer to a response, or to a type that [ForClients] returned for it.
func (r *Row) Do(ctx context.Context, c Caller, in, out any) error {
	if v, ok := in.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return err
		}
	}
	return c.Call(ctx, r, in, out, func() error { return nil })
}

// Request decodes a request.
func (r *Row) Request(body []byte) (any, error) {
	in := r.NewRequest()
	if err := requests.Unmarshal(body, in); err != nil {
		return nil, errtable.Invalidf("request %s: %v", r.Name, err)
	}
	return in, nil
}

// Run carries out a decoded request in this process, and sends each part of the response
// encoded. did is what it changed, if the operation can be repeated with a key.
func (r *Row) Run(ctx context.Context, on, in any, send func(part []byte) error) (did *once.Effect, err error) {
	return r.run(ctx, on, in, func(v any) error {
		part, err := Encode(v)
		if err != nil {
			return err
		}
		return send(part)
	})
}

// Again returns the encoded response to a request that repeats an earlier one. ok is false
// if the operation has none.
func (r *Row) Again(o *Outcome) (body []byte, ok bool, err error) {
	if r.again == nil {
		return nil, false, nil
	}
	out, err := r.again(o)
	if err != nil {
		return nil, true, err
	}
	body, err = Encode(out)
	return body, true, err
}

// NoStore sends the response for a space without a store. It returns err, which is
// [crmem.ErrNoStore], if the operation has none.
func (r *Row) NoStore(err error, send func(part []byte) error) error {
	if r.noStore == nil {
		return err
	}
	body, err := Encode(r.noStore())
	if err != nil {
		return err
	}
	return send(body)
}
