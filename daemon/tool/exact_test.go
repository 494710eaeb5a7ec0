package tool

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

func TestCheckArguments(t *testing.T) {
	for args, want := range map[string]string{
		``: "", `null`: "", `{}`: "", `{"content":"text \u00e9 \uFFFD 日本 �"}`: "",
		`{"content":"\ud83d\ude00\uD83D\uDE00"}`:       "",
		`{"content":"\\ud800 \\\\udc00"}`:              "",
		`{"content":"a\ud800"}`:                        `argument content: lone surrogate \ud800`,
		`{"content":"\uDBFF\u0041"}`:                   `argument content: lone surrogate \uDBFF`,
		`{"content":"\udc00"}`:                         `argument content: lone surrogate \udc00`,
		`{"content":"\udfff\ud800"}`:                   `argument content: lone surrogate \udfff`,
		`{"content":"\ud83d\ud83d\ude00"}`:             `argument content: lone surrogate \ud83d`,
		`{"content":"\ud83d\ude00\ude00"}`:             `argument content: lone surrogate \ude00`,
		`{"content":"\\\ud800"}`:                       `argument content: lone surrogate \ud800`,
		`{"content":"\ud83dude00"}`:                    `argument content: lone surrogate \ud83d`,
		`{"name":"a","content":"\ud83d`:                `argument content: lone surrogate \ud83d`,
		"{\"content\":\"a\xff\"}":                      `argument content: invalid UTF-8`,
		"{\"content\":\"\xed\xa0\x80\"}":               `argument content: invalid UTF-8`,
		`{"a":{"b":1},"aliases":["x",["y"],"\ud800"]}`: `argument aliases[2]: lone surrogate`,
		`{"tasks":[{"a":"b"},{"agent":"\ud800"}]}`:     `argument tasks[1].agent: lone surrogate`,
		`{"a":1,"\ud800":2}`:                           `name of an argument: lone surrogate`,
		`{"a":{"b":[{"\ud800":2}]}}`:                   `name of a member of argument a.b[0]: lone surrogate`,
		`"\ud800"`:                                     `arguments: lone surrogate`,
		`["\ud800"]`:                                   `argument [0]: lone surrogate`,
		`}]","x`:                                       "", `"`: "", `{"a`: "", `{"a":"\`: "", `{"a":"\u`: "", `,`: "",
		strings.Repeat(`[`, 10_000): "", strings.Repeat(`[`, 10_001): "arguments: more than 10000 levels of nesting",
		`{"` + strings.Repeat("k", 5000) + `":{"` + strings.Repeat("k", 5000) + `":"\ud800"}}`: "lone surrogate",
	} {
		err := CheckArguments([]byte(args))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 600) {
			t.Errorf("%.80q: %v, want %q", args, err, want)
		}
	}
}

// TestCheckArgumentsAgreesWithDecoder writes random texts as JSON in random
// ways, and wants a text refused if and only if it cannot be decoded exactly.
func TestCheckArgumentsAgreesWithDecoder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 20_000 {
		units := make([]uint16, r.IntN(5))
		for i := range units {
			units[i] = []uint16{0xd83d, 0xde00, 'a', '\\', '"', 0xe9, 0xfffd}[r.IntN(7)]
		}
		var b strings.Builder
		for _, u := range units {
			switch {
			case u == 'a':
				b.WriteString("a")
			case u == '\\' || u == '"':
				b.WriteString(`\` + string(rune(u)))
			case !utf16.IsSurrogate(rune(u)) && r.IntN(2) == 0:
				b.WriteRune(rune(u))
			default:
				const digits, upper = "0123456789abcdef", "0123456789ABCDEF"
				from := []string{digits, upper}[r.IntN(2)]
				b.WriteString(`\u` + string([]byte{from[u>>12], from[u>>8&15], from[u>>4&15], from[u&15]}))
			}
		}
		var got string
		if err := json.Unmarshal([]byte(`"`+b.String()+`"`), &got); err != nil {
			t.Fatal(err)
		}
		// Encoding again gives the code units back if the text is exact.
		back := utf16.Encode([]rune(got))
		exact := len(back) == len(units)
		for i := 0; exact && i < len(units); i++ {
			exact = back[i] == units[i]
		}
		err := CheckArguments([]byte(`{"x":"` + b.String() + `"}`))
		if (err == nil) != exact {
			t.Fatalf("%s decodes exactly: %t, and CheckArguments returns %v", b.String(), exact, err)
		}
		if err != nil {
			refused++
			if !utf8.ValidString(err.Error()) {
				t.Fatalf("%q", err)
			}
		}
	}
	if refused < 2000 {
		t.Errorf("only %d texts refused", refused)
	}
}

// TestCallRefusesInexactText: a tool either gets the text that the model wrote
// or is not called.
func TestCallRefusesInexactText(t *testing.T) {
	type args struct {
		Content string `json:"content"`
	}
	var got []string
	var s Set
	s.Add(New("keep", "", func(_ context.Context, _ Call, a args) (string, error) {
		got = append(got, a.Content)
		return "kept", nil
	}))
	scope := For(Grant{Default: true, Tools: []string{"keep"}})
	for _, c := range []struct{ args, want string }{
		{`{"content":"x\ud83d\ude00"}`, "kept"},
		{`{"content":"x\ud800"}`, `invalid arguments: argument content: lone surrogate \ud800: send complete characters`},
		{"{\"content\":\"x\xff\"}", "invalid arguments: argument content: invalid UTF-8: send text"},
	} {
		if r := s.Call(t.Context(), Call{Name: "keep", Arguments: json.RawMessage(c.args), Scope: scope}); r.Output != c.want {
			t.Errorf("%q: %q, want %q", c.args, r.Output, c.want)
		}
	}
	if len(got) != 1 || got[0] != "x😀" {
		t.Errorf("the tool got %q", got)
	}
}
