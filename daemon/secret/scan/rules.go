package scan

// rule describes a form of secrets.
type rule struct {
	kind    string
	keys    string  // keywords, separated by spaces: every secret has one of them
	form    string  // the text after the keyword: a regular expression of literals and runs
	entropy float64 // minimal bits for each character of the runs

	// A group in form is the secret. Without a group, the secret begins with before
	// or the keyword, and no word may precede or continue it.

	before string                                                    // the run before the keyword
	apart  bool                                                      // no hyphen may precede the secret
	find   func(text string, start, end int) (from, to int, ok bool) // instead of form; the keyword is text[start:end]
}

// rules are the forms that Find finds. Of rules that match at the same place, the
// first one counts.
//
// Most prefixes, lengths, and alphabets are facts from the configuration of gitleaks
// v8.30.1, Copyright (c) 2019 Zachary Rice, MIT License; its text is in
// .github/THIRD_PARTY.md. The others are from the documentation of the providers.
//
// A run of a length that may grow has no maximum. A maximum would make the secret
// depend on the text after it, and Redact would need more than one pass.
var rules = []rule{
	// Models.
	{kind: "anthropic-key", keys: "sk-ant-api03- sk-ant-admin01- sk-ant-oat01- sk-ant-ort01-", form: `[\w-]{93}AA`, entropy: 3.5},
	{kind: "openrouter-key", keys: "sk-or-v1-", form: `[0-9a-f]{64}`, entropy: 2.8},
	{kind: "openai-key", keys: "sk-proj- sk-svcacct- sk-admin-", form: `[\w-]{74}T3BlbkFJ[\w-]{74,}`, entropy: 3.5},
	{kind: "openai-key", keys: "sk-proj- sk-svcacct- sk-admin-", form: `[\w-]{58}T3BlbkFJ[\w-]{58,}`, entropy: 3.5},
	{kind: "openai-key", keys: "sk- sk-proj- sk-svcacct- sk-admin-", form: `[0-9A-Za-z]{20}T3BlbkFJ[0-9A-Za-z]{20}`, entropy: 3.5},
	{kind: "deepseek-key", keys: "sk-", form: `[0-9a-f]{32}`, entropy: 2.6, apart: true},
	{kind: "groq-key", keys: "gsk_", form: `[0-9A-Za-z]{52}`, entropy: 3.5},
	{kind: "xai-key", keys: "xai-", form: `[0-9A-Za-z]{80}`, entropy: 3.5},
	{kind: "perplexity-key", keys: "pplx-", form: `[0-9A-Za-z]{48}`, entropy: 3.5},
	{kind: "huggingface-token", keys: "hf_ api_org_", form: `[0-9A-Za-z]{34,}`, entropy: 3.5},
	{kind: "replicate-token", keys: "r8_", form: `[\w-]{37}`, entropy: 3.5},
	{kind: "nvidia-key", keys: "nvapi-", form: `[\w-]{64}`, entropy: 3.5},
	{kind: "langsmith-key", keys: "lsv2_pt_ lsv2_sk_", form: `[0-9a-f]{32}_[0-9a-f]{10}`, entropy: 2.6},
	{kind: "tavily-key", keys: "tvly- tvly-dev-", form: `[0-9A-Za-z]{32}`, entropy: 3.5},

	// Clouds.
	{kind: "aws-access-key-id", keys: "AKIA ASIA ABIA ACCA", form: `[A-Z2-7]{16}`, entropy: 2.5},
	{kind: "aws-secret-key", keys: "secret_access_key SECRET_ACCESS_KEY ecretAccessKey",
		form: "[\\\\\"'`]{0,3}[ \\t]{0,4}[:=]{1,2}>?[ \\t]{0,4}[\\\\\"'`]{0,3}([0-9A-Za-z/+]{40})", entropy: 3.5},
	{kind: "aws-bedrock-key", keys: "ABSK", form: `[\w/+]{109,}={0,2}`, entropy: 3.5},
	{kind: "google-api-key", keys: "AIza", form: `[\w-]{35}`, entropy: 3.5},
	{kind: "google-oauth-secret", keys: "GOCSPX-", form: `[\w-]{28}`, entropy: 3.2},
	{kind: "google-oauth-token", keys: "ya29.", form: `[\w-]{60,}`, entropy: 3.5},
	{kind: "azure-storage-key", keys: "AccountKey=", form: `([0-9A-Za-z/+]{86}==)`, entropy: 3.5},
	{kind: "azure-shared-key", keys: "SharedAccessKey=", form: `([0-9A-Za-z/+]{43}=)`, entropy: 3.5},
	{kind: "azure-client-secret", keys: "0Q~ 1Q~ 2Q~ 3Q~ 4Q~ 5Q~ 6Q~ 7Q~ 8Q~ 9Q~", before: `[\w~.]{3}`, form: `[\w~.-]{34}`, entropy: 3.2},
	{kind: "alibaba-access-key-id", keys: "LTAI", form: `[0-9A-Za-z]{20}`, entropy: 3},
	{kind: "digitalocean-token", keys: "dop_v1_ doo_v1_ dor_v1_", form: `[0-9a-f]{64}`, entropy: 2.8},
	{kind: "databricks-token", keys: "dapi", form: `[0-9a-f]{32}`, entropy: 2.6},
	{kind: "doppler-token", keys: "dp.pt. dp.ct. dp.sa.", form: `[0-9A-Za-z]{43}`, entropy: 3.5},
	{kind: "fly-token", keys: "fo1_", form: `[\w-]{43}`, entropy: 3.5},
	{kind: "fly-token", keys: "fm1a_ fm1r_ fm2_", form: `[\w/+]{100,}={0,3}`, entropy: 3.5},
	{kind: "heroku-key", keys: "HRKU-AA", form: `[\w-]{58}`, entropy: 3.5},
	{kind: "netlify-token", keys: "nfp_", form: `[0-9A-Za-z]{36}`, entropy: 3.5},
	{kind: "planetscale-token", keys: "pscale_tkn_ pscale_oauth_ pscale_pw_", form: `[\w-]{32,}`, entropy: 3.2},
	{kind: "pulumi-token", keys: "pul-", form: `[0-9a-f]{40}`, entropy: 2.6},
	{kind: "supabase-token", keys: "sbp_", form: `[0-9a-f]{40}`, entropy: 2.6},
	{kind: "tailscale-key", keys: "tskey-auth- tskey-api- tskey-client- tskey-scim- tskey-webhook-", form: `[0-9A-Za-z]{10,}-[0-9A-Za-z]{20,}`, entropy: 3},
	{kind: "terraform-token", keys: ".atlasv1.", before: `[0-9A-Za-z]{14}`, form: `[\w=-]{60,}`, entropy: 3.5},
	{kind: "vault-token", keys: "hvs. hvb. hvr.", form: `[\w-]{24,}`, entropy: 3.2},

	// Code and packages.
	{kind: "github-token", keys: "ghp_ gho_ ghu_ ghs_ ghr_", form: `[0-9A-Za-z]{36,}`, entropy: 3.5},
	{kind: "github-fine-grained-token", keys: "github_pat_", form: `[0-9A-Za-z]{22}_[0-9A-Za-z]{59}`, entropy: 3.5},
	{kind: "gitlab-token", keys: "glpat- gldt- glrt- glptt- glft- glimt- glsoat- glffct- gloas- glagent- glcbt-", form: `[\w-]{20,}\.[0-9a-z]{2}[0-9a-z]{7}`, entropy: 3},
	{kind: "gitlab-token", keys: "glpat- gldt- glrt- glptt- glft- glimt- glsoat- glffct- gloas- glagent- glcbt-", form: `[\w-]{20,}`, entropy: 3},
	{kind: "atlassian-token", keys: "ATATT3", form: `[\w=-]{186}`, entropy: 3.5},
	{kind: "buildkite-token", keys: "bkua_", form: `[0-9a-f]{40}`, entropy: 2.6},
	{kind: "artifactory-key", keys: "AKCp", form: `[0-9A-Za-z]{69}`, entropy: 3.5},
	{kind: "npm-token", keys: "npm_", form: `[0-9A-Za-z]{36}`, entropy: 3.5},
	{kind: "pypi-token", keys: "pypi-AgEIcHlwaS5vcmc pypi-AgENdGVzdC5weXBpLm9yZw", form: `[\w-]{50,}`, entropy: 3.5},
	{kind: "rubygems-key", keys: "rubygems_", form: `[0-9a-f]{48}`, entropy: 2.6},
	{kind: "crates-token", keys: "cio", form: `[0-9A-Za-z]{32}`, entropy: 3.5},
	{kind: "clojars-token", keys: "CLOJARS_", form: `[0-9a-z]{60}`, entropy: 3.5},
	{kind: "nuget-key", keys: "oy2", form: `[0-9a-z]{43}`, entropy: 3.5},
	{kind: "docker-token", keys: "dckr_pat_ dckr_oat_", form: `[\w-]{27,}`, entropy: 3.2},
	{kind: "openshift-token", keys: "sha256~", form: `[\w-]{43}`, entropy: 3.5},

	// Services.
	{kind: "slack-token", keys: "xoxb-", form: `[0-9]{8,}-[0-9]{8,}-[\w-]{24,}`, entropy: 3},
	{kind: "slack-token", keys: "xoxb-", form: `[0-9]{8,}-[0-9A-Za-z]{18,}`, entropy: 3},
	{kind: "slack-token", keys: "xoxp- xoxe-", form: `[0-9]{10,}-[0-9]{10,}-[0-9]{10,}-[\w-]{28,}`, entropy: 3},
	{kind: "slack-token", keys: "xoxs- xoxo-", form: `[0-9]+-[0-9]+-[0-9]+-[0-9a-f]{10,}`, entropy: 2},
	{kind: "slack-token", keys: "xoxa- xoxr-", form: `[0-9]-[\w-]{20,}`, entropy: 2.5},
	{kind: "slack-token", keys: "xoxb- xoxp- xoxe-", form: `[0-9]-[0-9A-Za-z]{146,}`, entropy: 3.5},
	{kind: "slack-app-token", keys: "xapp-", form: `[0-9]-[0-9A-Z]{8,}-[0-9]{8,}-[0-9a-z]{64,}`, entropy: 2.8},
	{kind: "slack-webhook", keys: "hooks.slack.com/services/", form: `T[0-9A-Z]{8,}/B[0-9A-Z]{8,}/[0-9A-Za-z]{24,}`, entropy: 3.2},
	{kind: "slack-webhook", keys: "hooks.slack.com/workflows/ hooks.slack.com/triggers/", form: `[\w/+]{43,}`, entropy: 3.2},
	{kind: "discord-token", keys: "MD MT Mj Mz ND NT Nj Nz OD OT", form: `[\w-]{22,26}\.[\w-]{6}\.[\w-]{27,}`, entropy: 3.5},
	{kind: "discord-webhook", keys: "discord.com/api/webhooks/ discordapp.com/api/webhooks/", form: `[0-9]{17,20}/[\w-]{60,}`, entropy: 3.5},
	{kind: "telegram-token", keys: ":AA", before: `[0-9]{8,10}`, form: `[\w-]{33}`, entropy: 3.2},
	{kind: "stripe-key", keys: "sk_live_ rk_live_ sk_test_ rk_test_ sk_prod_ rk_prod_", form: `[0-9A-Za-z]{24,}`, entropy: 3.2},
	{kind: "stripe-webhook-secret", keys: "whsec_", form: `[\w/+]{32,}={0,2}`, entropy: 3.5},
	{kind: "square-token", keys: "sq0atp-", form: `[\w-]{22}`, entropy: 3},
	{kind: "square-token", keys: "EAAAE EAAAF EAAAl", form: `[\w-]{59}`, entropy: 3.5},
	{kind: "shopify-token", keys: "shpat_ shpca_ shppa_ shpss_", form: `[0-9a-fA-F]{32}`, entropy: 2.6},
	{kind: "facebook-token", keys: "EAAM EAAC", form: `[0-9A-Za-z]{100,}`, entropy: 3.5},
	{kind: "twilio-key", keys: "SK", form: `[0-9a-f]{32}`, entropy: 2.6},
	{kind: "sendgrid-key", keys: "SG.", form: `[\w-]{22}\.[\w-]{43}`, entropy: 3.5},
	{kind: "brevo-key", keys: "xkeysib-", form: `[0-9a-f]{64}-[0-9A-Za-z]{16}`, entropy: 2.8},
	{kind: "mailgun-key", keys: "key-", form: `[0-9a-f]{32}`, entropy: 2.6, apart: true},
	{kind: "mailchimp-key", keys: "-us", before: `[0-9a-f]{32}`, form: `[0-9]{1,2}`, entropy: 2.6},
	{kind: "linear-key", keys: "lin_api_", form: `[0-9A-Za-z]{40}`, entropy: 3.5},
	{kind: "notion-token", keys: "ntn_", form: `[0-9]{11}[0-9A-Za-z]{35}`, entropy: 3.5},
	{kind: "notion-token", keys: "secret_", form: `[0-9A-Za-z]{43}`, entropy: 3.5},
	{kind: "airtable-token", keys: "pat", form: `[0-9A-Za-z]{14}\.[0-9a-f]{64}`, entropy: 3},
	{kind: "figma-token", keys: "figd_", form: `[\w-]{40}`, entropy: 3.5},
	{kind: "typeform-token", keys: "tfp_", form: `[\w=.-]{59}`, entropy: 3.5},
	{kind: "contentful-token", keys: "CFPAT-", form: `[\w-]{43}`, entropy: 3.5},
	{kind: "postman-key", keys: "PMAK-", form: `[0-9a-f]{24}-[0-9a-f]{34}`, entropy: 2.8},
	{kind: "sentry-token", keys: "sntryu_", form: `[0-9a-f]{64}`, entropy: 2.8},
	{kind: "sentry-token", keys: "sntrys_eyJ", form: `[0-9A-Za-z/+=_]{60,}`, entropy: 3.5},
	{kind: "grafana-token", keys: "glsa_", form: `[0-9A-Za-z]{32}_[0-9A-Fa-f]{8}`, entropy: 3.2},
	{kind: "grafana-token", keys: "glc_", form: `[\w/+]{32,}={0,3}`, entropy: 3.2},
	{kind: "newrelic-key", keys: "NRAK-", form: `[0-9A-Z]{27}`, entropy: 3},
	{kind: "dynatrace-token", keys: "dt0c01.", form: `[0-9A-Z]{24}\.[0-9A-Z]{64}`, entropy: 3.5},
	{kind: "onepassword-token", keys: "ops_eyJ", form: `[\w/+]{250,}={0,3}`, entropy: 3.5},

	// Forms of no single provider.
	{kind: "age-secret-key", keys: "AGE-SECRET-KEY-1", form: `[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}`, entropy: 3.5},
	{kind: "jwt", keys: "eyJ", form: `[\w-]{14,}\.eyJ[\w-]{14,}\.[\w-]{10,}`, entropy: 3},
	{kind: "pgp-private-key", keys: "-----BEGIN", find: findPGP},
	{kind: "pem-private-key", keys: "-----BEGIN", find: findPEM},
	{kind: "putty-private-key", keys: "Private-Lines:", find: findPuTTY},
	{kind: "url-password", keys: "://", find: findURL},
	{kind: "connection-password", keys: "assword= Pwd= pwd= PWD=", find: findConnection},
	{kind: "basic-credentials", keys: "Authorization authorization AUTHORIZATION", find: findBasic},
	{kind: "bearer-token", keys: "Authorization authorization AUTHORIZATION", find: findBearer},
}
