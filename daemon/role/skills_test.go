package role

import (
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/daemon/model/chat"
	"crabmem/daemon/skill"
	"crabmem/daemon/tool"
	"crabmem/sessionlog/record"
)

// TestSkills: a worker has the texts of the skills that the channel names, and only the tools that
// all of them permit. An unknown skill, and one that is too long, start no work.
func TestSkills(t *testing.T) {
	skills := map[string]*skill.Skill{
		"ship":  {Name: "ship", Body: "Tag, then push."},
		"look":  {Name: "look", Body: "Only read.", AllowedTools: []string{"Read"}},
		"novel": {Name: "novel", Body: strings.Repeat("x", 20<<10)},
	}
	for _, c := range []struct {
		args, refused string
		bash          bool
		texts         []string
	}{
		{`{"task":"x","skills":["ship"]}`, "", true, []string{"x\n\n<skill name=\"ship\">\nTag, then push.\n</skill>"}},
		{`{"task":"x","skills":["ship","look"]}`, "", false, []string{"Tag, then push.", "Only read."}},
		{`{"task":"x","skills":["secret"]}`, skill.ErrNotFound.Error(), false, nil},
		{`{"task":"x","skills":["novel","novel"]}`, "task with its skills has ", false, nil},
	} {
		bubble(t, func(r *rig) {
			r.skills = skills
			refused, worker := "", (*request)(nil)
			give := spawn(c.args, call(Outcome, `{"text":"done"}`))
			r.reply = func(q *request) answer {
				if q.of == record.Worker {
					worker = q
				} else if last := q.Messages[len(q.Messages)-1]; last.Role == record.RoleTool {
					refused = last.Content
				}
				return give(q)
			}
			r.send("user", "go")
			r.settle(time.Minute)
			if c.refused != "" {
				if !strings.Contains(refused, c.refused) || worker != nil {
					t.Errorf("%s: %q", c.args, refused)
				}
				return
			}
			if worker == nil {
				t.Fatalf("%s: no worker: %q", c.args, refused)
			}
			for _, text := range c.texts {
				if !worker.has(text) {
					t.Errorf("%s: the worker lacks %q", c.args, text)
				}
			}
			if got := slices.ContainsFunc(worker.Tools, func(d chat.Tool) bool { return d.Name == tool.Bash }); got != c.bash {
				t.Errorf("%s: the worker has bash: %v", c.args, got)
			}
		})
	}
}
