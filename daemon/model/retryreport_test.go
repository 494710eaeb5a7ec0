package model_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"crabmem/daemon/model"
)

// TestRetryReported checks what a caller learns before each wait, with a fixed
// jitter and no wait.
func TestRetryReported(t *testing.T) {
	for _, c := range []struct {
		name     string
		answer   func(*http.Request) (*http.Response, error)
		fallback bool
		want     []string
	}{
		{"retry-after", refuse(429, "Retry-After", "8"), false, []string{
			"rate limited; retrying in 8 s (attempt 2 of 6)", "rate limited; retrying in 8 s (attempt 3 of 6)", "rate limited; retrying in 8 s (attempt 4 of 6)",
			"rate limited; retrying in 8 s (attempt 5 of 6)", "rate limited; retrying in 8 s (attempt 6 of 6)",
		}},
		{"doubling", refuse(502), false, []string{
			"the provider returned a server error; retrying in 2 s (attempt 2 of 6)", "the provider returned a server error; retrying in 3 s (attempt 3 of 6)",
			"the provider returned a server error; retrying in 6 s (attempt 4 of 6)", "the provider returned a server error; retrying in 12 s (attempt 5 of 6)",
			"the provider returned a server error; retrying in 24 s (attempt 6 of 6)",
		}},
		{"short", broken, false, []string{
			"the response was cut off; retrying (attempt 2 of 3)", "the response was cut off; retrying (attempt 3 of 3)",
		}},
		{"with a fallback", refuse(502), true, []string{
			"the provider returned a server error; retrying in 2 s (attempt 2 of 3)", "the provider returned a server error; retrying in 3 s (attempt 3 of 3)",
		}},
		{"limited, with a fallback", refuse(429), true, nil},
		{"quota", quota(429), false, nil},
		{"unknown key", refuse(401), false, nil},
	} {
		for _, stream := range []bool{false, true} {
			var got []string
			net := model.Network{
				Transport: fleet(func(r *http.Request, name string) (*http.Response, error) {
					if name == "other" {
						return refuse(401)(r)
					}
					return c.answer(r)
				}),
				Wait:   func(context.Context, time.Duration) error { return nil },
				Jitter: func(limit time.Duration) time.Duration { return limit },
			}
			p := model.Provider{Name: "p", BaseURL: "http://model.test/v1", Models: []string{"m", "other"}}
			if c.fallback {
				p.Fallback = []string{"other"}
			}
			r, err := model.NewRegistry(net, []model.Provider{p}, "")
			if err != nil {
				t.Fatal(err)
			}
			q := ask("?")
			q.OnNotice = func(text string) { got = append(got, text) }
			if stream {
				_, err = collect(t, r, q)
			} else {
				_, err = r.Send(t.Context(), q)
			}
			if err == nil || !slices.Equal(got, c.want) {
				t.Errorf("%s, stream %v: %q, want %q: %v", c.name, stream, got, c.want, err)
			}
		}
	}
}
