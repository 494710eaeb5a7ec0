package model_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/model"
)

// fleet answers requests in memory by the model that they name.
type fleet func(r *http.Request, model string) (*http.Response, error)

func (f fleet) RoundTrip(r *http.Request) (*http.Response, error) {
	var q struct{ Model string }
	err := json.NewDecoder(r.Body).Decode(&q)
	r.Body.Close()
	if err != nil {
		return nil, err
	}
	return f(r, q.Model)
}

type reply = func(*http.Request) (*http.Response, error)

// chain is a registry of the models m1 to m5, whose replies the test sets. A model
// without a reply answers. calls lists the models that were called, in order.
type chain struct {
	*model.Registry
	t       *testing.T
	stream  bool
	replies map[string]reply
	calls   []string
}

// each runs a test in a bubble for streamed responses and for others.
func each(t *testing.T, p model.Provider, fallbacks map[string][]string, test func(*chain)) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint("stream ", stream), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &chain{t: t, stream: stream, replies: make(map[string]reply)}
				net := model.Network{Jitter: func(time.Duration) time.Duration { return 0 }, Transport: fleet(func(r *http.Request, name string) (*http.Response, error) {
					c.calls = append(c.calls, name)
					if reply := c.replies[name]; reply != nil {
						return reply(r)
					}
					if !stream {
						return answer(200, "application/json", strings.ReplaceAll(wholeHello, "hello", name))(r)
					}
					return answer(200, "text/event-stream", strings.ReplaceAll(streamHello, "hello", name))(r)
				})}
				p.Name, p.BaseURL, p.Models, p.Fallbacks = "p", "http://model.test/v1", []string{"m1", "m2", "m3", "m4", "m5"}, fallbacks
				var err error
				if c.Registry, err = model.NewRegistry(net, []model.Provider{p}, ""); err != nil {
					t.Fatal(err)
				}
				c.Cooldown = time.Minute
				test(c)
			})
		})
	}
}

func (c *chain) ask() (*model.Response, error) {
	if c.stream {
		return collect(c.t, c.Registry, ask("?"))
	}
	return c.Send(c.t.Context(), ask("?"))
}

// want asks m1, and checks which model answered and which were called.
func (c *chain) want(answered string, calls ...string) {
	c.t.Helper()
	c.calls = nil
	res, err := c.ask()
	name := answered
	if answered == "m1" {
		name = "" // the requested one
	}
	if err != nil || res.Message.Content != answered || res.Model != name {
		c.t.Fatalf("%+v, %v, want an answer of %s", res, err, answered)
	}
	if !slices.Equal(c.calls, calls) {
		c.t.Errorf("called %q, want %q", c.calls, calls)
	}
}

var three = map[string][]string{"m1": {"m2", "m3"}, "m2": {"m3", "m1"}, "m3": {"m1", "m2"}}

// TestChain: each model of a chain is called until one answers, a limited one once and a
// failed one with its retries, and no model twice, although the fallbacks form a cycle.
func TestChain(t *testing.T) {
	each(t, model.Provider{}, three, func(c *chain) {
		c.want("m1", "m1")
		c.replies["m1"] = refuse(503)
		c.want("m2", "m1", "m1", "m1", "m2")
		c.replies["m1"] = refuse(429)
		c.want("m2", "m1", "m2")
	})
	each(t, model.Provider{}, three, func(c *chain) {
		c.replies["m1"], c.replies["m2"] = quota(429), refuse(503)
		c.want("m3", "m1", "m2", "m2", "m2", "m3")
	})
	none := 0
	each(t, model.Provider{MaxRetries: &none}, three, func(c *chain) {
		c.replies["m1"], c.replies["m2"], c.replies["m3"] = refuse(503), refuse(503), refuse(503)
		_, err := c.ask()
		if e, ok := errors.AsType[*model.Error](err); !ok || e.Model != "m1" || !slices.Equal(c.calls, []string{"m1", "m2", "m3"}) {
			t.Errorf("called %q: %v", c.calls, err)
		}
	})
}

// TestFallbacksOfModel: the fallbacks of a model take the place of the provider's, at most
// three are tried, and duplicates and the model itself are not.
func TestFallbacksOfModel(t *testing.T) {
	none := 0
	p := model.Provider{MaxRetries: &none, Fallback: []string{"m5"}}
	each(t, p, map[string][]string{"m1": {"m1", "m2", "m2", "m3", "m4", "m5"}, "m3": {}}, func(c *chain) {
		for i := range 5 {
			c.replies[fmt.Sprint("m", i+1)] = refuse(503)
		}
		if _, err := c.ask(); err == nil || !slices.Equal(c.calls, []string{"m1", "m2", "m3", "m4"}) {
			t.Errorf("called %q: %v", c.calls, err)
		}
		for name, want := range map[string][]string{"m2": {"m2", "m5"}, "m3": {"m3"}} {
			q := ask("?")
			q.Model, c.calls = name, nil
			if _, err := c.Send(c.t.Context(), q); err == nil || !slices.Equal(c.calls, want) {
				t.Errorf("called %q, want %q: %v", c.calls, want, err)
			}
		}
		q := ask("?")
		q.Once, c.calls = true, nil
		if _, err := c.Send(c.t.Context(), q); err == nil || !slices.Equal(c.calls, []string{"m1"}) {
			t.Errorf("called once: %q, %v", c.calls, err)
		}
	})
}

// TestCooldown: a model that reached its rate limit is not called while another one
// answers, and is the first again after the cooldown or the time of the provider. Other
// failures do not cool.
func TestCooldown(t *testing.T) {
	each(t, model.Provider{}, three, func(c *chain) {
		c.replies["m1"] = refuse(429)
		c.want("m2", "m1", "m2")
		delete(c.replies, "m1")
		time.Sleep(time.Minute - 1)
		c.want("m2", "m2")
		again, err := c.Renew([]model.Provider{{Name: "p", BaseURL: "http://model.test/v1", Models: []string{"m1", "m2"}, Fallback: []string{"m2"}}}, "")
		if err != nil {
			t.Fatal(err)
		}
		old := c.Registry
		c.Registry = again
		c.want("m2", "m2") // after a reload
		c.Registry = old
		time.Sleep(time.Nanosecond)
		c.want("m1", "m1")

		c.replies["m1"] = refuse(429, "Retry-After", "7")
		c.want("m2", "m1", "m2")
		delete(c.replies, "m1")
		time.Sleep(7*time.Second - 1)
		c.want("m2", "m2")
		time.Sleep(time.Nanosecond)
		c.want("m1", "m1")

		// The last model that may answer does, although it cools.
		c.replies["m1"], c.replies["m2"] = refuse(429), refuse(429)
		c.want("m3", "m1", "m2", "m3")
		delete(c.replies, "m1")
		c.replies["m3"] = broken
		c.want("m1", "m3", "m3", "m3", "m1")

		c.replies["m1"], c.replies["m2"] = refuse(500), nil
		time.Sleep(time.Hour)
		c.want("m2", "m1", "m1", "m1", "m2")
		delete(c.replies, "m1")
		c.want("m1", "m1")
		c.replies["m1"] = hang
		c.want("m2", "m1", "m2")
		delete(c.replies, "m1")
		c.want("m1", "m1")

		c.Cooldown = 0
		c.replies["m1"] = refuse(429, "Retry-After", "1000")
		c.want("m2", "m1", "m2")
		c.want("m2", "m1", "m2")
	})
}

// TestStepTime: the attempts of a call with fallbacks take 5 minutes together, and each
// model gets its part. The retries of one model begin within 5 minutes; its own limit of
// time remains.
func TestStepTime(t *testing.T) {
	each(t, model.Provider{}, three, func(c *chain) {
		began := time.Now()
		c.replies["m1"], c.replies["m2"], c.replies["m3"] = hang, hang, hang
		_, err := c.ask()
		if e, ok := errors.AsType[*model.Error](err); !ok || !e.Timeout() || time.Since(began) != 5*time.Minute || !slices.Equal(c.calls, []string{"m1", "m2", "m3"}) {
			t.Errorf("called %q in %v: %v", c.calls, time.Since(began), err)
		}
		// Headers and no more are no response.
		silent := func(r *http.Request) (*http.Response, error) {
			return piped("text/event-stream", func(io.Writer) { <-r.Context().Done() })(r)
		}
		began = time.Now()
		c.replies["m1"], c.replies["m2"] = silent, nil
		c.want("m2", "m1", "m2")
		if d := time.Since(began); d != 100*time.Second {
			t.Errorf("took %v", d)
		}
	})
	ten := 10
	each(t, model.Provider{MaxRetries: &ten}, nil, func(c *chain) {
		began := time.Now()
		c.replies["m1"] = refuse(429, "Retry-After", "50")
		if _, err := c.ask(); err == nil || len(c.calls) != 6 || time.Since(began) != 250*time.Second {
			t.Errorf("%d calls in %v: %v", len(c.calls), time.Since(began), err)
		}
		began = time.Now()
		c.replies["m1"] = hang
		if _, err := c.ask(); err == nil || time.Since(began) != model.DefaultTimeout {
			t.Errorf("a hanging model: %v after %v", err, time.Since(began))
		}
	})
}
