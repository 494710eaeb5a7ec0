package agent

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"crabmem/daemon/model"
	"crabmem/daemon/model/modeltest"
)

// TestRetryNotice checks that a run and a compaction show the waits for a model.
func TestRetryNotice(t *testing.T) {
	r := newRig(t, 100_000, Hooks{})
	models, err := model.NewRegistry(model.Network{
		Wait:   func(context.Context, time.Duration) error { return nil },
		Jitter: func(time.Duration) time.Duration { return 0 },
	}, []model.Provider{{Name: "test", BaseURL: r.model.URL, Models: []string{"script"}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(models.Close)
	r.Models = models
	full := modeltest.Status(400, "This model's maximum context length is 8192 tokens")
	limited := modeltest.Status(429, "slow down")
	r.model.Queue(limited, full, limited.Header("Retry-After", "8"), modeltest.Say("what was said"), modeltest.Status(503, "busy"), modeltest.Say("the answer"))
	events, err := r.run(t.Context(), "go")
	want := []string{
		"notice rate limited; retrying in 1 s (attempt 2 of 6)",
		"notice rate limited; retrying in 8 s (attempt 2 of 6)",
		"compacted what was said as ",
		"notice the provider returned a server error; retrying in 1 s (attempt 2 of 6)",
		"text the answer", `done 1 "the answer"`,
	}
	if err != nil || !slices.Equal(events, want) {
		t.Errorf("%q, %v; want %q", events, err, want)
	}
}

// TestOverflowAfterText checks that a run does not repeat a response whose text
// the user has seen.
func TestOverflowAfterText(t *testing.T) {
	r := newRig(t, 100_000, Hooks{})
	r.model.Queue(modeltest.Say("one ").Raw("data: {\"error\":{\"message\":\"?\",\"code\":\"context_length_exceeded\"}}\n\n"), modeltest.Say("one again"))
	events, err := r.run(t.Context(), "go")
	if want := []string{"text one ", `done 4 "one "`}; !errors.Is(err, model.ErrOverflow) || !slices.Equal(events, want) {
		t.Errorf("%q, %v; want %q", events, err, want)
	}
	r.want("file", r.kept(), "user go", "streamed one ")
}
