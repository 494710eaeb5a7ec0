package scan

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
)

// piece is a part of a key: a fixed text, or low to high characters of an alphabet.
type piece struct {
	fixed     string
	alphabet  string
	low, high int
}

const (
	digits = "0123456789"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	hex    = digits + "abcdef"
	alnum  = digits + upper + lower
	safe   = alnum + "-_" // base64url
	std    = alnum + "+/" // base64
)

// key describes the keys of a kind, as their provider documents them. It is written
// without the rules.
type key struct {
	kind   string
	before []string // contexts, one of which precedes the key
	pieces []piece
	after  string
	open   bool // a longer key is one, too
	part   bool // a part of the key is one, too
}

func f(text string) piece                { return piece{fixed: text} }
func n(alphabet string, n int) piece     { return piece{"", alphabet, n, n} }
func to(alphabet string, a, b int) piece { return piece{"", alphabet, a, b} }

var keys = []key{
	{kind: "anthropic-key", pieces: []piece{f("sk-ant-api03-"), n(safe, 93), f("AA")}},
	{kind: "anthropic-key", pieces: []piece{f("sk-ant-admin01-"), n(safe, 93), f("AA")}},
	{kind: "openrouter-key", pieces: []piece{f("sk-or-v1-"), n(hex, 64)}},
	{kind: "openai-key", pieces: []piece{f("sk-"), n(alnum, 20), f("T3BlbkFJ"), n(alnum, 20)}},
	{kind: "openai-key", pieces: []piece{f("sk-proj-"), n(safe, 58), f("T3BlbkFJ"), n(safe, 58)}, open: true},
	{kind: "openai-key", pieces: []piece{f("sk-svcacct-"), n(safe, 74), f("T3BlbkFJ"), n(safe, 74)}, open: true},
	{kind: "deepseek-key", pieces: []piece{f("sk-"), n(hex, 32)}},
	{kind: "groq-key", pieces: []piece{f("gsk_"), n(alnum, 52)}},
	{kind: "xai-key", pieces: []piece{f("xai-"), n(alnum, 80)}},
	{kind: "perplexity-key", pieces: []piece{f("pplx-"), n(alnum, 48)}},
	{kind: "huggingface-token", pieces: []piece{f("hf_"), n(upper+lower, 34)}, open: true},
	{kind: "replicate-token", pieces: []piece{f("r8_"), n(alnum, 37)}},
	{kind: "nvidia-key", pieces: []piece{f("nvapi-"), n(safe, 64)}},
	{kind: "langsmith-key", pieces: []piece{f("lsv2_pt_"), n(hex, 32), f("_"), n(hex, 10)}},
	{kind: "tavily-key", pieces: []piece{f("tvly-"), n(alnum, 32)}},
	{kind: "aws-access-key-id", pieces: []piece{f("AKIA"), n(upper+"234567", 16)}},
	{kind: "aws-access-key-id", pieces: []piece{f("ASIA"), n(upper+"234567", 16)}},
	{kind: "aws-secret-key", before: []string{"AWS_SECRET_ACCESS_KEY=", "aws_secret_access_key = ", `"SecretAccessKey": "`, "secretAccessKey: '"}, pieces: []piece{n(std, 40)}},
	{kind: "aws-bedrock-key", pieces: []piece{f("ABSK"), to(std, 109, 269)}, open: true},
	{kind: "google-api-key", pieces: []piece{f("AIza"), n(safe, 35)}},
	{kind: "google-oauth-secret", pieces: []piece{f("GOCSPX-"), n(safe, 28)}},
	{kind: "google-oauth-token", pieces: []piece{f("ya29."), to(safe, 60, 200)}, open: true},
	{kind: "azure-storage-key", before: []string{"DefaultEndpointsProtocol=https;AccountName=store;AccountKey="}, pieces: []piece{n(std, 86), f("==")}},
	{kind: "azure-shared-key", before: []string{"SharedAccessKeyName=root;SharedAccessKey="}, pieces: []piece{n(std, 43), f("=")}},
	{kind: "azure-client-secret", pieces: []piece{n(alnum, 3), n(digits, 1), f("Q~"), n(alnum+"_~.-", 33), n(alnum, 1)}},
	{kind: "alibaba-access-key-id", pieces: []piece{f("LTAI"), n(alnum, 20)}},
	{kind: "digitalocean-token", pieces: []piece{f("dop_v1_"), n(hex, 64)}},
	{kind: "databricks-token", pieces: []piece{f("dapi"), n(hex, 32)}},
	{kind: "doppler-token", pieces: []piece{f("dp.pt."), n(alnum, 43)}},
	{kind: "fly-token", pieces: []piece{f("fo1_"), n(safe, 43)}},
	{kind: "fly-token", pieces: []piece{f("fm2_"), to(std, 100, 600)}, open: true},
	{kind: "heroku-key", pieces: []piece{f("HRKU-AA"), n(safe, 58)}},
	{kind: "netlify-token", pieces: []piece{f("nfp_"), n(alnum, 36)}},
	{kind: "planetscale-token", pieces: []piece{f("pscale_tkn_"), to(safe, 32, 64)}, open: true},
	{kind: "pulumi-token", pieces: []piece{f("pul-"), n(hex, 40)}},
	{kind: "supabase-token", pieces: []piece{f("sbp_"), n(hex, 40)}},
	{kind: "tailscale-key", pieces: []piece{f("tskey-auth-"), to(alnum, 10, 17), f("-"), to(alnum, 20, 32)}, open: true},
	{kind: "terraform-token", pieces: []piece{n(alnum, 14), f(".atlasv1."), to(safe, 60, 70)}, open: true},
	{kind: "vault-token", pieces: []piece{f("hvs."), to(safe, 24, 120)}, open: true},
	{kind: "github-token", pieces: []piece{f("ghp_"), n(alnum, 36)}, open: true},
	{kind: "github-token", pieces: []piece{f("ghs_"), n(alnum, 36)}, open: true},
	{kind: "github-fine-grained-token", pieces: []piece{f("github_pat_"), n(alnum, 22), f("_"), n(alnum, 59)}},
	{kind: "gitlab-token", pieces: []piece{f("glpat-"), n(safe, 20)}, open: true},
	{kind: "gitlab-token", pieces: []piece{f("glrt-"), n(safe, 20)}, open: true},
	{kind: "gitlab-token", pieces: []piece{f("glpat-"), to(safe, 20, 300), f("."), n(lower+digits, 9)}, part: true},
	{kind: "atlassian-token", pieces: []piece{f("ATATT3"), n(safe+"=", 186)}},
	{kind: "buildkite-token", pieces: []piece{f("bkua_"), n(hex, 40)}},
	{kind: "artifactory-key", pieces: []piece{f("AKCp"), n(alnum, 69)}},
	{kind: "npm-token", pieces: []piece{f("npm_"), n(alnum, 36)}},
	{kind: "pypi-token", pieces: []piece{f("pypi-AgEIcHlwaS5vcmc"), to(safe, 50, 180)}, open: true},
	{kind: "rubygems-key", pieces: []piece{f("rubygems_"), n(hex, 48)}},
	{kind: "crates-token", pieces: []piece{f("cio"), n(alnum, 32)}},
	{kind: "clojars-token", pieces: []piece{f("CLOJARS_"), n(lower+digits, 60)}},
	{kind: "nuget-key", pieces: []piece{f("oy2"), n(lower+digits, 43)}},
	{kind: "docker-token", pieces: []piece{f("dckr_pat_"), n(safe, 27)}, open: true},
	{kind: "openshift-token", pieces: []piece{f("sha256~"), n(safe, 43)}},
	{kind: "slack-token", pieces: []piece{f("xoxb-"), to(digits, 8, 13), f("-"), to(digits, 8, 13), f("-"), n(alnum, 24)}, open: true},
	{kind: "slack-token", pieces: []piece{f("xoxb-"), to(digits, 8, 14), f("-"), to(alnum, 18, 26)}, open: true},
	{kind: "slack-token", pieces: []piece{f("xoxs-"), to(digits, 1, 12), f("-"), to(digits, 1, 12), f("-"), to(digits, 1, 12), f("-"), to(hex, 10, 40)}, open: true},
	{kind: "slack-token", pieces: []piece{f("xoxp-"), to(digits, 10, 13), f("-"), to(digits, 10, 13), f("-"), to(digits, 10, 13), f("-"), to(alnum, 28, 34)}, open: true},
	{kind: "slack-token", pieces: []piece{f("xoxa-"), n(digits, 1), f("-"), to(alnum, 20, 48)}, open: true},
	{kind: "slack-token", pieces: []piece{f("xoxe-"), n(digits, 1), f("-"), n(upper+digits, 146)}, open: true},
	{kind: "slack-app-token", pieces: []piece{f("xapp-"), n(digits, 1), f("-"), to(upper+digits, 8, 11), f("-"), to(digits, 8, 13), f("-"), n(hex, 64)}, open: true},
	{kind: "slack-webhook", before: []string{"https://"}, pieces: []piece{f("hooks.slack.com/services/T"), to(upper+digits, 8, 10), f("/B"), to(upper+digits, 8, 10), f("/"), n(alnum, 24)}, open: true},
	{kind: "slack-webhook", before: []string{"https://"}, pieces: []piece{f("hooks.slack.com/workflows/"), to(std, 43, 56)}, open: true},
	{kind: "discord-token", pieces: []piece{f("MT"), to(alnum, 22, 26), f("."), n(safe, 6), f("."), to(safe, 27, 38)}, open: true},
	{kind: "discord-webhook", before: []string{"https://"}, pieces: []piece{f("discord.com/api/webhooks/"), to(digits, 17, 20), f("/"), to(safe, 60, 68)}, open: true},
	{kind: "telegram-token", pieces: []piece{to("123456789", 8, 10), f(":AA"), n(safe, 33)}},
	{kind: "stripe-key", pieces: []piece{f("sk_live_"), to(alnum, 24, 99)}, open: true},
	{kind: "stripe-key", pieces: []piece{f("rk_test_"), to(alnum, 24, 99)}, open: true},
	{kind: "stripe-webhook-secret", pieces: []piece{f("whsec_"), n(alnum, 32)}, open: true},
	{kind: "square-token", pieces: []piece{f("sq0atp-"), n(safe, 22)}},
	{kind: "square-token", pieces: []piece{f("EAAAE"), n(safe, 59)}},
	{kind: "shopify-token", pieces: []piece{f("shpat_"), n(hex, 32)}},
	{kind: "shopify-token", pieces: []piece{f("shpss_"), n(hex, 32)}},
	{kind: "facebook-token", pieces: []piece{f("EAAC"), to(alnum, 100, 200)}, open: true},
	{kind: "twilio-key", pieces: []piece{f("SK"), n(hex, 32)}},
	{kind: "sendgrid-key", pieces: []piece{f("SG."), n(safe, 22), f("."), n(safe, 43)}},
	{kind: "brevo-key", pieces: []piece{f("xkeysib-"), n(hex, 64), f("-"), n(alnum, 16)}},
	{kind: "mailgun-key", pieces: []piece{f("key-"), n(hex, 32)}},
	{kind: "mailchimp-key", pieces: []piece{n(hex, 32), f("-us"), to("123456789", 1, 2)}},
	{kind: "linear-key", pieces: []piece{f("lin_api_"), n(alnum, 40)}},
	{kind: "notion-token", pieces: []piece{f("ntn_"), n(digits, 11), n(alnum, 35)}},
	{kind: "notion-token", pieces: []piece{f("secret_"), n(alnum, 43)}},
	{kind: "airtable-token", pieces: []piece{f("pat"), n(alnum, 14), f("."), n(hex, 64)}},
	{kind: "figma-token", pieces: []piece{f("figd_"), n(safe, 40)}},
	{kind: "typeform-token", pieces: []piece{f("tfp_"), n(safe, 59)}},
	{kind: "contentful-token", pieces: []piece{f("CFPAT-"), n(safe, 43)}},
	{kind: "postman-key", pieces: []piece{f("PMAK-"), n(hex, 24), f("-"), n(hex, 34)}},
	{kind: "sentry-token", pieces: []piece{f("sntryu_"), n(hex, 64)}},
	{kind: "sentry-token", pieces: []piece{f("sntrys_eyJ"), to(alnum, 60, 200)}, open: true},
	{kind: "grafana-token", pieces: []piece{f("glsa_"), n(alnum, 32), f("_"), n(hex, 8)}},
	{kind: "grafana-token", pieces: []piece{f("glc_"), to(std, 32, 400)}, open: true},
	{kind: "newrelic-key", pieces: []piece{f("NRAK-"), n(upper+digits, 27)}},
	{kind: "dynatrace-token", pieces: []piece{f("dt0c01."), n(upper+digits, 24), f("."), n(upper+digits, 64)}},
	{kind: "onepassword-token", pieces: []piece{f("ops_eyJ"), to(std, 250, 700)}, open: true},
	{kind: "age-secret-key", pieces: []piece{f("AGE-SECRET-KEY-1"), n("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)}},
	{kind: "jwt", pieces: []piece{f("eyJ"), to(safe, 14, 80), f(".eyJ"), to(safe, 14, 400), f("."), to(safe, 10, 342)}, open: true},
}

// random returns a text of a piece.
func (p piece) random(r *rand.Rand) string {
	if p.alphabet == "" {
		return p.fixed
	}
	length := p.low
	if r.IntN(2) == 0 {
		length += r.IntN(p.high - p.low + 1)
	}
	b := make([]byte, length)
	for i := range b {
		b[i] = p.alphabet[r.IntN(len(p.alphabet))]
	}
	return string(b)
}

func (k key) random(r *rand.Rand) (before, secret, after string) {
	var b strings.Builder
	for _, p := range k.pieces {
		b.WriteString(p.random(r))
	}
	if len(k.before) > 0 {
		before = k.before[r.IntN(len(k.before))]
	}
	return before, b.String(), k.after
}

// composed are kinds whose secrets are no sequences of pieces.
var composed = map[string]func(r *rand.Rand) (before, secret, after string){
	"pem-private-key": func(r *rand.Rand) (string, string, string) {
		label := []string{"", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED "}[r.IntN(6)]
		header := ""
		if r.IntN(4) == 0 {
			header = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC," + n(hex, 32).random(r) + "\n\n"
		}
		text := "-----BEGIN " + label + "PRIVATE KEY-----\n" + header + armor(r, 1+r.IntN(24))
		switch r.IntN(4) {
		case 0: // cut off
			return "", text, "\n"
		case 1: // in JSON
			return `"`, strings.ReplaceAll(text+"\n-----END "+label+"PRIVATE KEY-----", "\n", `\n`), `\n"`
		}
		return "", text + "\n-----END " + label + "PRIVATE KEY-----", "\n"
	},
	"pgp-private-key": func(r *rand.Rand) (string, string, string) {
		return "", "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n" + armor(r, 4+r.IntN(20)) + "\n=" + n(std, 4).random(r) + "\n-----END PGP PRIVATE KEY BLOCK-----", "\n"
	},
	"putty-private-key": func(r *rand.Rand) (string, string, string) {
		lines := 1 + r.IntN(14)
		return "PuTTY-User-Key-File-3: ssh-rsa\nEncryption: none\n", fmt.Sprintf("Private-Lines: %d\n%s", lines, armor(r, lines)), "\nPrivate-MAC: 1\n"
	},
	"url-password": func(r *rand.Rand) (string, string, string) {
		scheme := []string{"postgres", "postgresql", "mysql", "mongodb+srv", "redis", "amqp", "https", "ftp", "smtp"}[r.IntN(9)]
		user := []string{"", "app", "admin", "user.name", "deploy-bot", "root"}[r.IntN(6)]
		return scheme + "://" + user + ":", password(r), "@db.internal:5432/orders"
	},
	"connection-password": func(r *rand.Rand) (string, string, string) {
		field := []string{"Password", "Pwd", "password", "PWD"}[r.IntN(4)]
		return "Server=db.internal;Database=orders;User Id=app;" + field + "=", password(r), ";Encrypt=true"
	},
	"bearer-token": func(r *rand.Rand) (string, string, string) {
		name := []string{"Authorization: Bearer ", "authorization: bearer ", `"Authorization": "Bearer `, "AUTHORIZATION=Bearer ", "Authorization: token "}[r.IntN(5)]
		return name, to(alnum, 24, 90).random(r), "\n"
	},
	"basic-credentials": func(r *rand.Rand) (string, string, string) {
		return "Authorization: Basic ", base64.StdEncoding.EncodeToString([]byte("app:" + password(r))), "\n"
	},
}

// changes are pairs of old and new texts. Each list makes a near miss of a composed
// secret.
var changes = map[string][][]string{
	"pem-private-key":     {{"BEGIN", "BEGUN"}, {"PRIVATE", "PUBLIC"}, {"-----BEGIN", "----BEGIN"}, {"KEY-----", "KEYS-----"}},
	"pgp-private-key":     {{"BEGIN", "BEGUN"}, {"PRIVATE", "PUBLIC"}, {"PGP", "PQP"}, {"BLOCK-----", "BLOCK----"}},
	"putty-private-key":   {{"Private-", "Public-"}, {"Lines: ", "Lines: x"}, {"Lines:", "Lines"}, {"Lines", "lines"}},
	"url-password":        {{"://", ":/"}, {"://", "//"}, {"@", " "}, {"@", "/"}},
	"connection-password": {{"=", "-"}, {";", " "}, {";", ","}, {"assword", "asswort", "Pwd", "Pwt", "pwd", "pwt", "PWD", "PWT"}},
	"bearer-token":        {{"earer", "eaver", "token ", "taken "}, {"uthoriz", "uthoris", "UTHORIZ", "UTHORIS"}, {"Bearer ", "Bearer <", "bearer ", "bearer <", "token ", "token <"}, {"ization", "ization x", "IZATION", "IZATION x"}},
	"basic-credentials":   {{"Basic", "Basil"}, {"uthoriz", "uthoris"}, {"Basic ", "Basic -"}, {"Basic ", "Basic"}},
}

func armor(r *rand.Rand, lines int) string {
	list := make([]string, lines)
	for i := range list {
		list[i] = n(std, 64).random(r)
	}
	list[0] = "M" + list[0][1:]
	return strings.Join(list, "\n")
}

// password returns a password with letters and digits.
func password(r *rand.Rand) string {
	return n(lower, 2).random(r) + n(digits, 2).random(r) + to(alnum+"!$%*_-.~", 4, 20).random(r) + n(alnum, 1).random(r)
}
