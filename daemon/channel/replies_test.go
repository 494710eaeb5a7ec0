package channel_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/op"
)

// repliesEarly makes the agent send texts, a minute before it answers.
func (r *rig) repliesEarly(answer string, texts ...string) {
	r.d.reply = func(ctx context.Context, m *op.Message) (string, error) {
		emit := ctx.Value(emitKey{}).(func(agent.Event) error)
		for _, text := range texts {
			if err := emit(agent.Event{Kind: agent.Reply, Content: text}); err != nil {
				return "", err
			}
		}
		select {
		case <-time.After(time.Minute):
			return answer, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// TestEarlyReplies: a text of a run arrives before the run's end, and an answer that repeats the
// last text does not arrive again.
func TestEarlyReplies(t *testing.T) {
	bubble(t, func(r *rig) {
		r.repliesEarly("done", "I look", "almost")
		r.start()
		r.api.Text(7, "go")
		synctest.Wait()
		r.want("I look", "almost")
		time.Sleep(time.Minute)
		r.want("I look", "almost", "done")
		r.repliesEarly("done", "I look", "done")
		r.api.Text(7, "again")
		time.Sleep(2 * time.Minute)
		r.want("I look", "almost", "done", "I look", "done")
	})
}

// TestEarlyRepliesOverRestart: a run that continues a turn after a power cut does not send its
// texts again.
func TestEarlyRepliesOverRestart(t *testing.T) {
	bubble(t, func(r *rig) {
		r.repliesEarly("done", "I look")
		r.start()
		r.api.Text(7, "go")
		synctest.Wait()
		r.want("I look")
		r.restart()
		time.Sleep(2 * time.Minute)
		r.want("I look", "done")
		r.api.Text(7, "/stop")
		time.Sleep(time.Minute)
		r.api.Text(7, "go")
		time.Sleep(2 * time.Minute)
		r.want("I look", "done", "No run is active.", "I look", "done")
	})
}
