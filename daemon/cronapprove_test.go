package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/wire/pb"
)

// TestCronApproval runs entries that a person wrote to crons.toml. Only the value off
// lets an entry run a command that is not on the allowlist.
func TestCronApproval(t *testing.T) {
	runs := map[string]bool{
		"": false, "approve = \"allowlist\"\n": false, "approve = \"off\"\n": true, "approve = \"\"\n": false,
		// The values of [tools.bash] and other spellings are invalid: the entry does not run.
		"approve = \"ask\"\n": false, "approve = \"Off\"\n": false, "approve = false\n": false,
	}
	m := modeltest.New(t)
	h, work := home(t), t.TempDir()
	table, made := "", make(map[string]bool)
	for approve, want := range runs {
		name := filepath.Join(work, fmt.Sprint(len(made)))
		made[name] = want
		table += fmt.Sprintf("[[cron]]\nid = %d\nschedule = \"0 9 * * *\"\nskill = \"feeds\"\nargs = %q\nsession = 0\nsession_file = \"new\"\nonce = false\n%s", len(made), name, approve)
	}
	if err := os.MkdirAll(filepath.Join(h, "skills", "feeds"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"crons.toml": table, "skills/feeds/SKILL.md": "---\nname: feeds\ndescription: reads\n---\nRead.\n"} {
		if err := os.WriteFile(filepath.Join(h, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := serve(t, h, scripted(m))
	list := s.crons.List()
	if len(list) != 4 {
		t.Fatalf("%d entries are valid: %v, %v", len(list), list, s.crons.Warnings())
	}
	shown, err := op.ListCrons.Do(t.Context(), s.client(), op.None{})
	if err != nil || len(shown) != len(list) {
		t.Fatalf("%v, %v", shown, err)
	}
	for i, c := range list {
		m.Queue(modeltest.Call("bash", `{"command":"touch `+c.Args+`"}`), modeltest.Say("done"))
		if err := s.runCron(t.Context(), c); err != nil {
			t.Error(err)
		}
		if shown := shown[i].Approve; (shown == "off") != made[c.Args] {
			t.Errorf("the entry with approve %q is shown with %q", c.Approve, shown)
		}
	}
	for name, want := range made {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s: the command ran: %v, want %v", name, err == nil, want)
		}
	}
}

// TestCronOfReference lists an entry that the reference wrote: it has only the number of a
// session, which the response contains.
func TestCronOfReference(t *testing.T) {
	h := home(t)
	table := "[[cron]]\nid = 3\nschedule = '1 0 * * *'\nskill = 'a'\nsession = 7\nonce = false\n"
	if err := os.WriteFile(filepath.Join(h, "crons.toml"), []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, h, "")
	list := s.one(&pb.ClientMessage{Msg: &pb.ClientMessage_ListCrons{ListCrons: &pb.ListCronsMsg{}}}).GetCronList().GetCrons()
	if len(list) != 1 || list[0].Session != 7 {
		t.Errorf("%v", list)
	}
}
