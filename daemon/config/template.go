package config

import (
	_ "embed"
	"fmt"
	"strings"
	"time"

	"crabmem/daemon/display"
	"crabmem/daemon/lazyregexp"
)

//go:embed template.toml
var template string

const openAI = `[provider.openai]
api_key = "${OPENAI_API_KEY}"
models = ["gpt-4o-mini", "gpt-4o"]
`

// rowsOf matches the line of template.toml that stands for the rows of a pattern.
var rowsOf = lazyregexp.New(`(?m)^\{\{([a-z_.*]+)(?: without (.*))?\}\}\n`)

const ollama = `[provider.ollama]
kind = "ollama"
models = ["llama3.2"]
`

// Template returns a config.toml with comments for all keys. With withKey, it uses OpenAI,
// and is valid as long as OPENAI_API_KEY is set.
func Template(withKey bool) []byte {
	providers := openAI
	if !withKey {
		providers = commented(openAI)
	}
	text := strings.Replace(template, "{{PROVIDERS}}\n", providers+"\n"+commented(ollama), 1)
	return []byte(rowsOf().ReplaceAllStringFunc(text, func(line string) string {
		m := rowsOf().FindStringSubmatch(line)
		return examples(m[1], m[2])
	}))
}

func commented(text string) string {
	return "#" + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n#") + "\n"
}

// examples returns the lines of the keys of a table: the default or an example of each,
// and its sentence. It omits the keys in without.
func examples(pattern, without string) string {
	var b strings.Builder
	for _, k := range Keys() {
		table, name := cutLast(k.Path)
		if table != pattern || k.example == "" || strings.Contains(" "+without+" ", " "+name+" ") {
			continue
		}
		code := "#" + name + " = " + k.example
		switch side := wrap(k.Text, 60); {
		case k.Text == "":
			b.WriteString(code + "\n")
		case len(code) < 34 && len(side) <= 3:
			fmt.Fprintf(&b, "%-34s# %s\n", code, strings.Join(side, "\n"+strings.Repeat(" ", 34)+"# "))
		default:
			b.WriteString("# " + strings.Join(wrap(k.Text, 78), "\n# ") + "\n" + code + "\n")
		}
	}
	return b.String()
}

// wrap splits a text into lines of at most width bytes.
func wrap(text string, width int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len(*last)+1+len(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

// literal returns a value as TOML.
func literal(v any) string {
	b, err := display.JSON(v)
	if err != nil {
		panic("config: a default cannot be encoded: " + err.Error())
	}
	return strings.NewReplacer(`","`, `", "`, "\x7f", `\u007f`).Replace(string(b))
}

// Key describes a key of config.toml for people.
type Key struct {
	Path    string // * is any name
	Default string // TOML, or "" = none
	Values  string // words or limits, or "" = all
	Text    string // sentence
	Restart bool   // a change takes effect after a restart of the daemon

	example string // TOML
}

// String describes the key in a few sentences.
func (k Key) String() string {
	var parts []string
	if k.Text != "" {
		parts = append(parts, strings.ToUpper(k.Text[:1])+k.Text[1:]+".")
	}
	if k.Values != "" {
		parts = append(parts, "Values: "+k.Values+".")
	}
	if k.Default != "" {
		parts = append(parts, "Default: "+k.Default+".")
	}
	if k.Restart {
		parts = append(parts, "A change takes effect when the daemon restarts.")
	}
	return strings.Join(parts, " ")
}

// Keys returns the keys of config.toml, except obsolete ones.
func Keys() []Key {
	var list []Key
	for _, g := range groups() {
		for _, r := range g.rows {
			if r.marks&(obsolete|unused) != 0 {
				continue
			}
			k := Key{Path: strings.TrimPrefix(g.pattern+"."+r.path, "."), Values: r.values(), Text: r.text, Restart: r.marks&restart != 0}
			if v := r.defaultValue(); v != nil {
				k.Default = literal(v)
				k.example = k.Default
			}
			if e, ok := r.def.(eg); ok {
				k.example = literal(e.v)
			}
			if _, isTable := r.def.(tree); isTable {
				k.Path, k.Default, k.example = k.Path+".*", "", ""
			}
			list = append(list, k)
		}
	}
	return list
}

// values describes the values that the limit permits.
func (r *row) values() string {
	switch limit := r.limit.(type) {
	case words:
		return strings.Join(limit, ", ")
	case span:
		if _, ok := r.to.(*time.Duration); ok {
			return fmt.Sprintf("%v to %v", time.Duration(limit.low), time.Duration(limit.high))
		}
		return fmt.Sprintf("%d to %d", limit.low, limit.high)
	}
	return ""
}

// cutLast cuts a dotted key before its last name.
func cutLast(key string) (table, name string) {
	if i := strings.LastIndexByte(key, '.'); i >= 0 {
		return key[:i], key[i+1:]
	}
	return "", key
}
