package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
)

// The limits of a body.
const (
	maxBody    = 1 << 20
	maxBigBody = 9 << 20
	maxDepth   = 64
)

func (c *call) limit() int64 {
	if c.route.big {
		return maxBigBody
	}
	return maxBody
}

func (c *call) tooLarge() *Problem {
	return problemf(http.StatusRequestEntityTooLarge, "too_large", "the body is larger than %d bytes", c.limit())
}

// decode reads the body.
func (c *call) decode(to any) error {
	b, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, c.limit()))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return c.tooLarge()
	}
	if err != nil {
		return invalidf("the body could not be read")
	}
	c.received()
	var t reflect.Type // nil: a shape of another vendor, which its own contract describes
	if c.route.own() {
		t = reflect.TypeOf(to).Elem()
	}
	if err := checkBody(b, t); err != nil {
		return invalidf("the body is not valid: %v", err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return invalidf("the body is not valid: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}
