package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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

// reader is a model that reads one percent of the prompt in 100 ms.
type reader struct{ replies }

func (b *reader) Stream(_ context.Context, q model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		for percent := range 43 {
			q.OnProgress(percent + 1)
			time.Sleep(100 * time.Millisecond)
		}
		yield(model.Chunk{Content: "done", Finish: "stop"}, nil)
	}
}

// TestProgress checks that a run shows how much of the prompt the model has read, at most
// once a second.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		for e := range runnerOf(t, 1000, &reader{}).Run(t.Context(), &Agent{MaxIterations: 1}, &Session{}, Input{Content: "go"}) {
			if e.Kind == Progress {
				got = append(got, e.Note)
			}
		}
		var want []string
		for _, percent := range []int{1, 11, 21, 31, 41} {
			want = append(want, fmt.Sprintf("reading the prompt, %d %%", percent))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestToolChoice checks that none applies to each step of a turn, and other choices to the
// first.
func TestToolChoice(t *testing.T) {
	for choice, want := range map[string][]string{
		"": {`"auto"`, `"auto"`}, "auto": {`"auto"`, `"auto"`}, "none": {`"none"`, `"none"`}, "required": {`"required"`, `"auto"`},
		"echo": {`{"function":{"name":"echo"},"type":"function"}`, `"auto"`},
	} {
		r := newRig(t, 100_000, Hooks{})
		r.agent.ToolChoice = choice
		for range 2 { // the second turn begins as the first one
			r.model.Queue(modeltest.Call("echo", `{"text":"x"}`), modeltest.Say("done"))
			if _, err := r.run(t.Context(), "go"); err != nil {
				t.Errorf("%s: %v", choice, err)
			}
		}
		for i, q := range r.model.Requests() {
			var body struct {
				Choice any `json:"tool_choice"`
			}
			err := json.Unmarshal(q.Body, &body)
			if got, _ := json.Marshal(body.Choice); err != nil || string(got) != want[i%2] {
				t.Errorf("%s, request %d: %s, want %s, %v", choice, i, got, want[i%2], err)
			}
		}
	}
	r := newRig(t, 100_000, Hooks{})
	r.agent.ToolChoice = "nothing"
	if _, err := r.run(t.Context(), "go"); err == nil || !strings.Contains(err.Error(), `no tool "nothing" of tool_choice`) {
		t.Error(err)
	}
}
