package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"crabmem/daemon/op"
)

// Call carries out an operation that has a path. It is a method of [op.Caller].
func (c *Client) Call(ctx context.Context, row *op.Row, in, out any, part func() error) error {
	if ok, err := c.callRun(ctx, row, in, out, part); ok {
		return err
	}
	p := row.HTTP()
	if p == nil {
		return c.Refused("the operation " + row.Name)
	}
	q, err := c.request(row, p, in)
	if err != nil {
		return err
	}
	body, err := c.exchange(ctx, row, q)
	if err != nil {
		return err
	}
	if p.Response != nil {
		if err := json.Unmarshal(body, out); err != nil {
			return c.unknown(row, fmt.Errorf("read response: %w", err))
		}
	}
	return part()
}

// request is a request that may be sent several times.
type request struct {
	method, target string
	header         http.Header
	body           []byte // nil: none
}

// request returns the request of an operation, as the gateway decodes it.
func (c *Client) request(row *op.Row, p *op.Path, in any) (*request, error) {
	if err := checkTexts(row, in); err != nil {
		return nil, err
	}
	path, query := p.Pattern, url.Values{}
	q := &request{method: p.Method, header: http.Header{"Authorization": {"Bearer " + c.key}}}
	for i := range p.Fields {
		f := &p.Fields[i]
		v, err := reflect.ValueOf(in).Elem().FieldByIndexErr(f.Index)
		switch {
		case err != nil: // in a nil pointer
		case f.Place == op.ForOwner && !isEmpty(v):
			return nil, c.Refused("the field " + f.Name + " of " + row.Name)
		case f.Place == op.InPath:
			path = strings.Replace(path, "{"+f.Part+"}", url.PathEscape(textOf(v)), 1)
		case f.Place == op.InQuery && (f.Default != "" && f.Min == 0 || !v.IsZero()):
			query.Set(f.Name, textOf(v))
		case f.Place == op.InHeader:
			q.header.Set(f.Part, textOf(v))
		}
	}
	if row.OnStore && c.Space != "" {
		query.Set("space", c.Space)
	}
	if row.Repeats {
		q.header.Set("Idempotency-Key", newKey())
	}
	q.target = c.base.String() + path
	if len(query) > 0 {
		q.target += "?" + query.Encode()
	}
	if p.Body == nil {
		return q, nil
	}
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	body := reflect.New(p.Body).Interface() // without the fields in other places
	if err := json.Unmarshal(text, body); err != nil {
		return nil, err
	}
	q.header.Set("Content-Type", "application/json")
	q.body, err = json.Marshal(body)
	return q, err
}

// isEmpty reports whether a field or what it points to is zero.
func isEmpty(v reflect.Value) bool {
	return v.IsZero() || v.Kind() == reflect.Pointer && v.Elem().IsZero()
}

// checkTexts refuses texts that are not UTF-8, as the daemon does: JSON would replace them.
func checkTexts(row *op.Row, in any) error {
	b, err := op.Encode(in)
	if err == nil {
		_, err = row.Request(b)
	}
	return err
}

// textOf returns the text of a parameter.
func textOf(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if t, ok := v.Interface().(encoding.TextMarshaler); ok {
		b, _ := t.MarshalText() // times and kinds have no error
		return string(b)
	}
	return fmt.Sprint(v.Interface())
}

// newKey returns a key for a request that may be repeated.
func newKey() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // it has no error
	return hex.EncodeToString(b)
}

// send sends the request once.
func (c *Client) send(ctx context.Context, q *request) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, q.method, q.target, bytes.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	if q.body == nil {
		r.Body, r.GetBody, r.ContentLength = nil, nil, 0
	}
	r.Header = q.header.Clone()
	return c.http.Do(r)
}
