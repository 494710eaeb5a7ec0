package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"crabmem/crmem"
	"crabmem/daemon/op"
)

// The limits of a body.
const (
	maxBody = 1 << 20
	// maxBigBody has room for the largest entry: JSON lengthens a control character by the
	// factor 6.
	maxBigBody = 6*(crmem.MaxContent+crmem.MaxAliases*crmem.MaxName) + 1<<20
	minBuffer  = 4 << 10

	// bodyMemory limits the bodies of all requests. A decoded body takes a few times as
	// much.
	bodyMemory = 128 << 20
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

// read reads the body. It reserves memory as the body arrives, so that a slow client
// occupies what it has sent. The caller calls give when the body is no longer needed.
func (c *call) read() (give func(), p *Problem) {
	leave, p := c.occupy(c.g.readers, "bodies", 1)
	if p != nil {
		return nil, p
	}
	defer leave()
	by, reserved := c.party(), int64(0)
	free := func() { c.g.memory.give(by, reserved) }
	defer func() {
		if p != nil {
			free()
		}
	}()
	in := http.MaxBytesReader(c.w, c.r.Body, c.limit())
	for {
		if len(c.body) == cap(c.body) {
			n := min(max(2*int64(cap(c.body)), minBuffer), c.limit()+1)
			if length := c.r.ContentLength; length >= 0 {
				n = min(n, length+1) // a body of this length shows its end
			}
			if ok, full := c.g.memory.take(by, n-reserved); !ok {
				if full {
					return nil, busy("bytes of bodies")
				}
				return nil, problemf(http.StatusTooManyRequests, "bytes", "too many bytes in concurrent bodies of the key").fix("wait until a request ends").after(1)
			}
			reserved = n
			c.body = append(make([]byte, 0, n), c.body...)
		}
		n, err := in.Read(c.body[len(c.body):cap(c.body)])
		c.body = c.body[:len(c.body)+n]
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return nil, c.tooLarge()
		}
		if err == io.EOF {
			c.received()
			return free, nil
		}
		if err != nil {
			return nil, invalidf("the body could not be read")
		}
	}
}

// decode decodes the body.
func (c *call) decode(to any) error {
	if err := op.CheckBody(c.body, c.route.body); err != nil {
		return invalidf("the body is not valid: %v", err)
	}
	d := json.NewDecoder(bytes.NewReader(c.body))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return invalidf("the body is not valid: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}
