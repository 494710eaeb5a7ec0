package sessionref_test

import (
	"testing"

	"crabmem/fuzz/sessionref"
)

// slugs are written by hand, by these rules. Letters and digits of all scripts
// remain, and ASCII letters become lower case. Each run of other characters becomes
// one -, and the ends have no -.
var slugs = []struct{ text, slug string }{
	{"user", "user"},
	{"tg:12345", "tg-12345"},
	{"tg-12345", "tg-12345"},
	{"", ""},
	{":", ""},
	{"---", ""},
	{" a  b ", "a-b"},
	{"a_b", "a-b"},
	{"A.B/C\\D", "a-b-c-d"},
	{"../../etc", "etc"},
	{"Crab Poems!", "crab-poems"},
	{"-x-", "x"},
	{"ÀÉÎ Øre", "ÀÉÎ-Øre"},
	{"İstanbul ΣΑΣ", "İstanbul-ΣΑΣ"},
	{"天気の相談", "天気の相談"},
	{"天気、相談。", "天気-相談"},
	{"हिन्दी", "हिन-दी"}, // the virama is not alphabetic, the vowel signs are
	{"e\u0301", "e"},     // a combining accent is not alphabetic
	{"ไทย", "ไทย"},
	{"ภาษาไทยเก่า", "ภาษาไทยเก-า"},
	{"١٢٣ ½ ² Ⅷ ⓐ 🄰", "١٢٣-½-²-Ⅷ-ⓐ-🄰"},
	{"crab🦀crab", "crab-crab"},
	{"a\x00b\nc", "a-b-c"},
	{"a\u200db\u2028c", "a-b-c"},
	{"ªº", "ªº"},
}

func TestSlug(t *testing.T) {
	for _, c := range slugs {
		if got := sessionref.Slug(c.text); got != c.slug {
			t.Errorf("%q: %q, want %q", c.text, got, c.slug)
		}
	}
	t.Logf("slugs: %d", len(slugs))
}

func TestLatest(t *testing.T) {
	for _, c := range []struct {
		names         []string
		agent, sender string
		latest        string
		next          uint32
	}{
		{nil, "crab", "user", "", 1},
		{[]string{"crab_user_1.jsonl"}, "crab", "user", "crab_user_1.jsonl", 2},
		{[]string{"crab_user_10.jsonl", "crab_user_2_x.jsonl", "crab_user_9.jsonl"}, "crab", "user", "crab_user_10.jsonl", 11},
		{[]string{"crab_user_1.jsonl", "crab_user_2.json", "crab_userx_7.jsonl", "crab_users_8.jsonl"}, "crab", "user", "crab_user_1.jsonl", 2},
		{[]string{"crab_tg-1_4.jsonl"}, "crab", "tg:1", "crab_tg-1_4.jsonl", 5},
		{[]string{"crab__3.jsonl"}, "crab", ":", "crab__3.jsonl", 4},
		{[]string{"crab_user_0007.jsonl"}, "crab", "user", "crab_user_0007.jsonl", 8},
		{[]string{"crab_user_7th.jsonl"}, "crab", "user", "crab_user_7th.jsonl", 8},
		// Because of one name without a number, Latest finds no file; NextSeq does.
		{[]string{"crab_user_1.jsonl", "crab_user_x.jsonl"}, "crab", "user", "", 2},
		{[]string{"crab_user_1.jsonl", "crab_user_.jsonl"}, "crab", "user", "", 2},
		{[]string{"crab_user_1.jsonl", "crab_user_4294967296.jsonl"}, "crab", "user", "", 2},
		{[]string{"crab_user_1.jsonl", "\xff.jsonl"}, "crab", "user", "", 2},
		// Because of a session of agent my_agent, Latest finds no session of agent my
		// and sender agent.
		{[]string{"my_agent_user_1.jsonl"}, "my", "agent", "", 1},
		{[]string{"my_agent_5.jsonl"}, "my_agent", "user", "", 1},
	} {
		got, ok := sessionref.Latest(c.names, c.agent, c.sender)
		if got != c.latest || ok != (c.latest != "") {
			t.Errorf("latest of %q: %q, %t, want %q", c.names, got, ok, c.latest)
		}
		if got := sessionref.NextSeq(c.names, c.agent, c.sender); got != c.next {
			t.Errorf("next of %q: %d, want %d", c.names, got, c.next)
		}
	}
}
