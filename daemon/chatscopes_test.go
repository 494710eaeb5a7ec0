package daemon

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/fuzz/race"
)

// chatSequence runs one sequence.
func chatSequence(t *testing.T, seed uint64, made chatBreak) (wrong, steps []string, count map[string]int) {
	synctest.Test(t, func(t *testing.T) {
		s := &chatSteps{chatWorld: newChatWorld(t, seed, made)}
		s.startDaemon()
		s.startAdapter()
		time.Sleep(300 * time.Millisecond)
		s.logf("role %q, open %v, listed %v, standing %v", s.role, s.open, s.listed, s.model.standing)
		for range 10 + s.rand.IntN(21) {
			if s.step(); len(s.model.wrong) > 0 {
				break
			}
		}
		if len(s.model.wrong) == 0 {
			s.finish()
		}
		if s.stopAdapter != nil {
			s.stopAdapter()
		}
		if s.d.Load() != nil {
			s.stopDaemon()
		}
		wrong, steps, count = s.model.wrong, s.steps, s.model.count
	})
	return wrong, steps, count
}

// TestChatScopes runs random sequences of a channel: two persons, a stranger, and the owner write in
// private chats and in a group, answer questions, add cron entries, and are paired and unpaired,
// while the channel and the daemon stop and start. After each step, what each of them has seen and
// changed must equal the table of trust. CRABMEM_CHAT_SCOPES sets the number of sequences, and
// CRABMEM_CHAT_SEED the first seed.
func TestChatScopes(t *testing.T) {
	count, first := 100, uint64(1)
	if testing.Short() || race.Enabled {
		count = 20
	}
	if n, err := strconv.Atoi(os.Getenv("CRABMEM_CHAT_SCOPES")); err == nil {
		count, first = n, uint64(time.Now().UnixNano())
	}
	if n, err := strconv.ParseUint(os.Getenv("CRABMEM_CHAT_SEED"), 10, 64); err == nil {
		first = n
	}
	total := make(map[string]int)
	for n := range count {
		wrong, steps, did := chatSequence(t, first+uint64(n), noBreak)
		if len(wrong) > 0 {
			t.Fatalf("seed %d: %s\n%s", first+uint64(n), strings.Join(wrong[:min(len(wrong), 3)], "\n"), strings.Join(steps, "\n"))
		}
		for key, n := range did {
			total[key] += n
		}
	}
	t.Logf("%d sequences, seeds from %d: %v", count, first, total)
}

// TestChatControls: the model finds each mistake.
func TestChatControls(t *testing.T) {
	race.Skip(t)
	for _, made := range []chatBreak{groupCounts, keepsSpace, losesMaker} {
		found := 0
		for seed := uint64(1); seed <= 300 && found == 0; seed++ {
			if wrong, _, _ := chatSequence(t, seed, made); len(wrong) > 0 {
				t.Logf("%s: seed %d: %s", made, seed, wrong[0])
				found++
			}
		}
		if found == 0 {
			t.Errorf("not found: %s", made)
		}
	}
}
