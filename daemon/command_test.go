package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/wire/pb"
)

// TestUnknownCommand checks that an unknown command reaches neither the model nor
// a session, that a skill outside the scope gets the response of a missing one, and
// that clients without the field commands are served as before.
func TestUnknownCommand(t *testing.T) {
	m := modeltest.New(t)
	if err := m.Script("always\ntext fine\nrepeat\n"); err != nil {
		t.Fatal(err)
	}
	dir := home(t)
	for _, name := range []string{"release", "secret"} {
		folder := filepath.Join(dir, "skills", name)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		text := "---\nname: " + name + "\ndescription: D\n---\n\nSteps.\n"
		if err := os.WriteFile(filepath.Join(folder, "SKILL.md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := serve(t, dir, scripted(m)+"[agents.pia]\nmodel = \"script\"\nskills = [\"release\"]\n")
	refused := func(agent, content, fix string) {
		t.Helper()
		before := len(m.Requests())
		for _, request := range []*pb.ClientMessage{
			callMessage(t, "runs.send", op.Message{Agent: agent, Content: content, Commands: true}),
			callMessage(t, "runs.stream", op.Message{Agent: agent, Content: content, Commands: true}),
		} {
			e := failure(t, s.one(request))
			if e.Kind != "not_found" || e.Code != 404 || e.Message != "no such command or skill: "+content || e.Remedy != fix {
				t.Errorf("%s: %v", content, e)
			}
		}
		if got := len(m.Requests()) - before; got != 0 {
			t.Errorf("%s: %d requests to the model", content, got)
		}
	}
	refused("crab", "/brew", "did you mean /help in a chat? crabmem skills list lists the skills; //brew sends the text")
	refused("pia", "/relese", "did you mean /release? //relese sends the text")
	refused("pia", "/secret", "did you mean /help in a chat? crabmem skills list lists the skills; //secret sends the text")
	refused("pia", "/secrey", "did you mean /help in a chat? crabmem skills list lists the skills; //secrey sends the text")
	if files, _ := filepath.Glob(filepath.Join(dir, "sessions", "*.jsonl")); len(files) > 0 {
		t.Errorf("refused messages created %q", files)
	}

	sent := func(content, want string, commands bool) op.Answer {
		t.Helper()
		r, err := op.SendMessage.Do(t.Context(), s.client(), op.Message{Agent: "crab", Content: content, Commands: commands})
		if requests := m.Requests(); err != nil || requests[len(requests)-1].LastUser() != want {
			t.Errorf("%s: answered %v, %v, and the model received another text than %q", content, r, err, want)
		}
		return r
	}
	sent("/brew it", "/brew it", false)
	sent("//brew it", "//brew it", false)
	sent("//brew it", "/brew it", true)
	sent("//release", "/release", true)
	sent("/etc/hosts is wrong", "/etc/hosts is wrong", true)
	last := sent("/release", "<skill name=\"release\">\nSteps.\n</skill>", true)

	// Also in a session that exists, whose file does not change.
	name := filepath.Join(dir, "sessions", last.Session+".jsonl")
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if e := failure(t, s.one(callMessage(t, "runs.send", op.Message{Number: last.Number, Content: "/brew", Commands: true}))); e.Kind != "not_found" {
		t.Errorf("answered %v", e)
	}
	if after, err := os.ReadFile(name); err != nil || string(after) != string(before) {
		t.Errorf("the session changed: %v", err)
	}
}
