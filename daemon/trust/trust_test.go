package trust

import (
	"slices"
	"strings"
	"testing"

	"crabmem/daemon/space"
	"crabmem/daemon/tool"
)

var rules = Rules{
	{Prefix: "tg:", Level: Trusted, Reads: []string{"team"}},
	{Prefix: "tg:9", Level: Untrusted, Allow: []string{"recall", "remember"}},
	{Prefix: "tg:-100", Level: Trusted, Space: "group", Allow: []string{"skill:feeds", "skill:sums", "mcp", "delegate:bet"}},
	{Prefix: "api:ci", Level: Admin},
	{Prefix: "hook:key/", Level: Trusted},
	{Prefix: "dc:", Level: Untrusted},
	{Prefix: "dc:1/2", Level: Untrusted, Allow: []string{"recall"}, Space: "help"},
}

// TestLevel matches identities with rules.
func TestLevel(t *testing.T) {
	for identity, want := range map[string]Level{
		"": Admin, "user": Admin, "cron": Admin, "delegate-crab": Admin, "tg": Admin, "tg-7": Admin,
		"tg:7": Trusted, "tg:": Trusted, "tg:77": Trusted, "tg:9": Untrusted, "tg:9/x": Untrusted, "tg:99": Trusted, "tg:-100": Trusted,
		"TG:7": Untrusted, "xtg:7": Untrusted, ":": Untrusted, ":tg:7": Untrusted, "slack:U02": Untrusted,
		"api:ci": Admin, "api:ci/run": Admin, "api:cid": Untrusted, "api:": Untrusted, "api:c": Untrusted,
		"hook:key": Untrusted, "hook:key/7": Trusted, "hook:keys/7": Untrusted, "dc:1/2": Untrusted,
		"delegate-crab:tg:7": Trusted, "delegate-crab:tg:9": Untrusted, "delegate-crab:": Untrusted, "delegate-crab:api:ci": Admin,
		"cron-tg:7": Trusted, "cron-tg:9": Untrusted, "work-cron-tg:7": Trusted, "cron-x:7": Untrusted, "cron-7": Admin,
		"delegate-bet:delegate-crab:tg:7": Untrusted, "delegate-crab:user": Untrusted,
	} {
		if got := rules.Level(identity); got != want {
			t.Errorf("%q: %s, want %s", identity, got, want)
		}
	}
	if got := (Rules)(nil).Level("tg:7"); got != Untrusted {
		t.Errorf("without rules: %s", got)
	}
}

// describe returns the tools and the spaces of a scope.
func describe(s tool.Scope) string {
	var list []string
	for _, name := range append(tool.BuiltIn(), "weather") {
		if s.Tools.Allows(name) {
			list = append(list, name)
		}
	}
	reads, _ := s.ReadSpaces([]string{"own"})
	write, _ := s.WriteSpace("own")
	text := strings.Join(list, " ") + "; " + strings.Join(reads, " ") + "; " + write
	if !s.Confined {
		text += "; not confined"
	}
	return text
}

func TestScope(t *testing.T) {
	const all = "ask_user bash delegate edit forget list mcp read recall remember send session_search skill write weather; own; own; not confined"
	const memory = "ask_user forget recall remember session_search; "
	of := space.OfSender
	for _, c := range []struct{ creator, sender, want string }{
		{"user", "user", all},
		{"user", "cron", all},
		{"user", "api:ci", all},
		{"tg:7", "tg:7", memory + of("tg:7") + " team; " + of("tg:7")},
		{"user", "tg:7", memory + of("tg:7") + " team; " + of("tg:7")},
		{"tg:7", "user", memory + of("tg:7") + " team; " + of("tg:7")},
		{"tg:7", "cron", memory + of("tg:7") + " team; " + of("tg:7")},
		{"tg:7", "tg:8", "ask_user recall; team; "},
		{"tg:7", "tg:9", "ask_user; ; "},
		{"tg:9", "tg:9", "ask_user recall remember; " + of("tg:9") + "; " + of("tg:9")},
		{"dc:5", "dc:5", "ask_user; ; "},
		{"dc:1/2", "dc:1/2", "ask_user recall; help; "},
		{"user", "slack:U02", "ask_user; ; "},
		{"slack:U02", "user", "ask_user; ; "},
		{"tg:-100", "tg:-100", "ask_user delegate forget mcp recall remember session_search skill; group; group"},
		{"delegate-crab", "delegate-crab", all},
		{"delegate-crab:tg:7", "delegate-crab:tg:7", memory + of("tg:7") + " team; " + of("tg:7")},
		{"delegate-crab:", "user", "ask_user; ; "},
	} {
		got := describe(rules.Scope(c.creator, c.sender))
		if sorted(got) != sorted(c.want) {
			t.Errorf("%s and %s:\n%s, want\n%s", c.creator, c.sender, got, c.want)
		}
		if other := describe(rules.Scope(c.sender, c.creator)); other != got {
			t.Errorf("%s and %s: the order matters: %s", c.creator, c.sender, other)
		}
	}
	group := rules.Scope("tg:-100", "user")
	if !group.Skills.Allows("feeds") || !group.Skills.Allows("sums") || group.Skills.Allows("notes") || !group.MCPs.All() || !group.Members.Allows("bet") || group.Members.Allows("alef") {
		t.Errorf("%+v", group)
	}
	for identity, textOnly := range map[string]bool{"user": false, "api:ci": false, "tg:7": false, "tg:-100": false, "tg:9": true, "dc:5": true, "slack:U02": true} {
		scope := rules.Scope(identity, "user")
		if scope.TextOnly != textOnly {
			t.Errorf("%s: questions without options: %v, want %v", identity, scope.TextOnly, textOnly)
		}
		if sessions := scope.Memory.Sessions; !sessions.Allows(identity) || sessions.Allows("tg:8") != (rules.Level(identity) == Admin) {
			t.Errorf("%s: sessions: %+v", identity, sessions)
		}
	}
	if limited := rules.Scope("tg:9", "tg:9").Memory; limited.MaxEntries != 100 || limited.MaxBytes != 256<<10 {
		t.Errorf("%+v", limited)
	}
}

// sorted orders the words of each part of a description.
func sorted(text string) string {
	parts := strings.Split(text, ";")
	for i, p := range parts {
		words := strings.Fields(p)
		slices.Sort(words)
		parts[i] = strings.Join(words, " ")
	}
	return strings.Join(parts, ";")
}

// TestDelegate checks that the session of a delegated task, resumed later by any
// sender, permits no more than the run that delegated.
func TestDelegate(t *testing.T) {
	for _, creator := range []string{"user", "tg:7", "tg:9", "slack:U02", "dc:1/2", "tg:*", "api:ci"} {
		for _, sender := range []string{"user", "tg:7", "tg:8", "slack:U02", "tg:*", ":"} {
			run := rules.Scope(creator, sender)
			task := Delegate("bet", creator, sender)
			if got, want := describe(run.Intersect(rules.Scope(task, task))), describe(rules.Scope(task, "user")); got != want {
				t.Errorf("%s and %s: the session of %s permits %s, the run %s", creator, sender, task, want, got)
			}
		}
	}
}

func TestDelegateNamesTheOtherServicesIdentity(t *testing.T) {
	for _, c := range []struct{ creator, sender, want string }{
		{"user", "user", "delegate-bet"},
		{"user", "cron", "delegate-bet"},
		{"delegate-crab", "user", "delegate-bet"},
		{"user", "tg:7", "delegate-bet:tg:7"},
		{"tg:7", "user", "delegate-bet:tg:7"},
		{"tg:7", "tg:7", "delegate-bet:tg:7"},
		{"delegate-crab:tg:7", "tg:7", "delegate-bet:tg:7"},
		{"delegate-crab:tg:7", "user", "delegate-bet:tg:7"},
		{"tg:7", "tg:8", "delegate-bet:"},
		{"delegate-crab:", "user", "delegate-bet:"},
	} {
		if got := Delegate("bet", c.creator, c.sender); got != c.want {
			t.Errorf("%s and %s: %s, want %s", c.creator, c.sender, got, c.want)
		}
	}
}

func TestCheck(t *testing.T) {
	for prefix, ok := range map[string]bool{"tg:": true, "tg:7": true, "hook:a/b": true, "": false, "tg": false, "user": false, ":": false, ":x": false, "\"tg:\"": false, " tg:": false, "7:": true, "X:": true, "delegate-crab:tg:7": false,
		"a:": true, "z:": true, "A:": true, "Z:": true, "0:": true, "9:": true, "`:": false, "{:": false, "@:": false, "[:": false, "/:": false, "::": false} {
		if err := CheckPrefix(prefix); (err == nil) != ok {
			t.Errorf("%q: %v", prefix, err)
		}
	}
	for _, c := range []struct {
		level Level
		word  string
		ok    bool
	}{
		{Untrusted, "recall", true}, {Untrusted, "remember", true}, {Untrusted, "forget", false}, {Untrusted, "bash", false}, {Untrusted, "skill", false}, {Untrusted, "recall:x", false}, {Untrusted, "remember:x", false},
		{Trusted, "skill", true}, {Trusted, "skill:a", true}, {Trusted, "mcp:s*", true}, {Trusted, "delegate:bet", true}, {Trusted, "skill:", false}, {Trusted, "bash", false}, {Trusted, "recall", false}, {Trusted, "", false},
		{Admin, "skill", false},
	} {
		if err := CheckAllow(c.level, c.word); (err == nil) != c.ok {
			t.Errorf("%s %q: %v", c.level, c.word, err)
		}
	}
}

// TestCronOf returns the senders for crons that identities made.
func TestCronOf(t *testing.T) {
	for identity, want := range map[string]string{"user": "cron", "cron": "cron", "tg:7": "cron-tg:7", "cron-tg:7": "cron-tg:7", "delegate-:tg:7": "cron-delegate-:tg:7"} {
		got := CronOf(identity)
		if got != want || !IsCron(got) || rules.Level(got) != rules.Level(identity) || IsCron(identity) != (got == identity) {
			t.Errorf("%s: %s", identity, got)
		}
	}
	if err := CheckPrefix("cron-tg:"); err == nil {
		t.Error("a rule matches the sender of crons")
	}
}
