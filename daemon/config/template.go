package config

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed template.toml
var template string

// Found is the result of crabmem init's search of the machine.
type Found struct {
	OpenAI bool     // OPENAI_API_KEY is set; its value is never written
	Ollama []string // models of a local Ollama
}

const openAI = `[provider.openai]
api_key = "${OPENAI_API_KEY}"
models = ["gpt-4o-mini", "gpt-4o"]
`

// Template returns a commented config.toml. It is valid without changes if
// OPENAI_API_KEY is still set.
func Template(f Found) []byte {
	var b strings.Builder
	comment := "#"
	if f.OpenAI {
		comment = ""
	}
	for line := range strings.Lines(openAI) {
		b.WriteString(comment + line)
	}
	b.WriteString("\n")
	models := f.Ollama
	comment = ""
	if len(models) == 0 {
		models, comment = []string{"llama3.2"}, "#"
	}
	b.WriteString(comment + "[provider.ollama]\n" + comment + "kind = \"ollama\"\n" + comment + "models = [")
	for i, m := range models {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quote(m))
	}
	b.WriteString("]\n")
	return []byte(strings.Replace(template, "{{PROVIDERS}}\n", b.String(), 1))
}

// quote writes a basic string of TOML.
func quote(text string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\ufffd") {
		switch {
		case r == '"' || r == '\\':
			b.WriteString("\\" + string(r))
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}
