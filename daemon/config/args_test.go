package config_test

import (
	"encoding/json"
	"strings"
	"testing"

	"crabmem/daemon/config"
)

// argsHome has a server with these arguments, which are JSON.
func argsHome(args string) map[string]string {
	return map[string]string{"config.toml": "[mcps.s]\ncommand = 'x'\nargs = " + args + "\n"}
}

// TestArgs checks that arguments of a server that look like secrets are masked.
func TestArgs(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{`[]`, `[]`},
		{`["-y","@scope/server","--port","80","/home/me/keys","--verbose","a=b","--path=/x:/y","--keyboard","de"]`, ``},
		{`["--token=abc","--api-key","abc","--x"]`, `["--token=hidden","--api-key","hidden","--x"]`},
		{`["--apiKey","abc","-p","80","--Access_Key=abc","--key=abc","--db-password","abc"]`, `["--apiKey","hidden","-p","80","--Access_Key=hidden","--key=hidden","--db-password","hidden"]`},
		{`["--token","${KEY}","--token=${KEY}","--token=x${KEY}","--token="]`, `["--token","${KEY}","--token=${KEY}","--token=hidden","--token="]`},
		{`["--auth","--port","80"]`, ``},
		{`["run","-e","API_TOKEN=abc","-e","HOME=/x","image"]`, `["run","-e","API_TOKEN=hidden","-e","HOME=/x","image"]`},
		{`["--header","Authorization: Bearer abc","--header=X-Api-Key:abc"]`, `["--header","Authorization:hidden","--header=X-Api-Key:hidden"]`},
		{`["--header","X: Bearer abc","-t","sk-abc","ghp_abc"]`, `["--header","X:hidden","-t","hidden","hidden"]`},
		{`["https://h/mcp","https://u:p@h/x?token=abc","--url=postgres://u:p@h/db","http://%zz"]`,
			`["https://h/mcp","https://hidden@h/x?hidden","--url=postgres://hidden@h/db","hidden"]`},
		{`["--token","secret:name","--token=${secret:name}","secret:name","${secret:name}"]`, ``},
		{`["--token=secret:name","--token=x${secret:name}"]`, `["--token=hidden","--token=hidden"]`},
		{`["-c","cd /; PASSWORD=abc exec x"]`, `["-c","cd /; PASSWORD=hidden"]`},
	} {
		if c.want == "" {
			c.want = c.args
		}
		m := newHome(t, argsHome(c.args))
		storeSecrets(t, m, "name", "value")
		js := get(t, m)
		if !strings.Contains(js, `"args":`+c.want) {
			t.Errorf("%s: %s, want %s", c.args, js, c.want)
		}
		if change, err := config.Set(m, "/h", []byte(js), getenv); err != nil || change.Written {
			t.Errorf("%s: set as it was shown: %+v, %v", c.args, change, err)
		}
	}
}

// TestSetArgs checks that a masked argument keeps its value, also at another
// position.
func TestSetArgs(t *testing.T) {
	const before = `["--token=one","--a-key","two","--b-key","three","https://u:four@h/","-v"]`
	for _, c := range []struct{ sent, want string }{
		{`["--token=hidden","--a-key","hidden","--b-key","hidden","https://hidden@h/","-v","--new"]`, `["--token=one","--a-key","two","--b-key","three","https://u:four@h/","-v","--new"]`},
		{`["--b-key","hidden"]`, `["--b-key","three"]`},
		{`["-v","https://hidden@h/","--token=hidden"]`, `["-v","https://u:four@h/","--token=one"]`},
		{`["--token=new","--a-key","newer","--b-key","hidden"]`, `["--token=new","--a-key","newer","--b-key","three"]`},
		{`["--other","hidden"]`, `["--other","hidden"]`},
		{`[]`, `[]`},
	} {
		m := newHome(t, argsHome(before))
		change, err := config.Set(m, "/h", []byte(`{"mcps":{"s":{"command":"x","args":`+c.sent+`}}}`), getenv)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, a := range change.Config.MCPs[0].Args {
			got = append(got, string(a))
		}
		if b, _ := json.Marshal(got); string(b) != c.want {
			t.Errorf("%s: %s, want %s", c.sent, b, c.want)
		}
	}
}
