package main

import (
	"testing"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/client"
)

// TestTalkErrors checks the exit code and the fix of errors of a run. The daemon
// reports most of them with the status 500, as RFC 0018 does.
func TestTalkErrors(t *testing.T) {
	for _, tc := range []struct {
		kind   string
		status uint32
		code   int
		fix    string
	}{
		{"not_found", 500, cli.ExitNotFound, "run crabmem sessions list to see the IDs"},
		{"unknown_agent", 500, cli.ExitNotFound, "use an agent from config.toml, or omit --agent"},
		{"unknown_model", 404, cli.ExitNotFound, "use a model from config.toml, or offline"},
		{"invalid", 400, cli.ExitUsage, ""},
		{"read_only", 409, cli.ExitConflict, "create a session with --new: this one was imported"},
		{"locked", 409, cli.ExitConflict, "wait until the lock holder exits"},
		{"busy", 503, cli.ExitConflict, ""},
		{"ambiguous", 409, cli.ExitConflict, "use one of the file names"},
		{"format", 500, cli.ExitCorrupt, "run crabmem sessions verify to list each problem and its fix"},
		{"outcome_unknown", 500, cli.ExitUnknown, "run crabmem sessions show to see whether the write took effect; check the disk before you retry"},
		{"permission", 403, cli.ExitPermission, "check the owner and the mode of the file and its directory"},
		{"too_many", 503, cli.ExitFailure, "wait until other runs finish"},
		{"", 500, cli.ExitFailure, ""},
	} {
		f := classify(talkError(&client.Error{Kind: tc.kind, Code: tc.status, Message: "run: broken"}))
		if kind := map[bool]string{true: "failed", false: tc.kind}[tc.kind == ""]; f.Code != tc.code || f.Remedy != tc.fix || f.Kind != kind || f.Message != "run: broken" {
			t.Errorf("%s: got %d %s %q %q, want %d, %q", tc.kind, f.Code, f.Kind, f.Message, f.Remedy, tc.code, tc.fix)
		}
	}
	f := classify(talkError(&client.Error{Kind: "model", Code: 500, Message: "run: broken", Remedy: "renew the key"}))
	if f.Code != cli.ExitFailure || f.Remedy != "renew the key" {
		t.Errorf("got %d %q, want the fix of the daemon", f.Code, f.Remedy)
	}
}
