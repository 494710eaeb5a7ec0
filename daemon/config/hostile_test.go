package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/daemon/config"
)

// TestHostile loads and sets large configurations that are designed to be slow.
// A step for each pair of keys would take minutes.
func TestHostile(t *testing.T) {
	many := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < 1<<18; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"unknown keys":   many("k%d=1\n"),
		"variables":      "[env]\n" + many("k%d=''\n"),
		"models":         "[provider.a]\napi_key='k'\nmodels=[" + many("'m%d',") + "]\n",
		"providers":      many("[provider.p%d]\n"),
		"limits":         "[provider.a]\napi_key='k'\nmodels=['x']\n[provider.a.context_limits]\n" + many("k%d=1\n"),
		"agents":         many("[agents.a%d]\nmodel='m'\n"),
		"members":        "[system.crab]\nmembers=[" + many("'m%d',") + "]\n",
		"dotted":         "a" + strings.Repeat(".a", 1<<19-8) + "=1\n",
		"dotted tables":  "[a" + strings.Repeat(".a", 1<<19-8) + "]\n",
		"brackets":       "a=" + strings.Repeat("[", 1<<20-8),
		"nested":         "a=" + strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"nested tables":  "a=" + strings.Repeat("{a=", 9000) + "1" + strings.Repeat("}", 9000),
		"array of table": many("[[provider]]\n#%d\n"),
		"syntax":         many("k%d\n"),
		"comments":       many("#%d\n"),
		"3000 keys":      "[zzz]\n" + strings.Join(strings.SplitAfter(many("k%d=1\n"), "\n")[:3000], ""),
	} {
		began := time.Now()
		m := newHome(t, map[string]string{"config.toml": text})
		_, err := config.Load(m, "/h", getenv)
		if ps, ok := errors.AsType[config.Problems](err); ok && len(ps) > 200 || !ok && name != "comments" {
			t.Errorf("%s: %d problems, %.100v", name, len(ps), err)
		}
		js, err := config.Get(m, "/h")
		if err == nil {
			_, err = config.Set(m, "/h", js, getenv)
		}
		gate.Time(t, name, began, 20*time.Second)
		t.Logf("%s: %.100v", name, err)
	}
	for name, js := range map[string]string{
		"nested":       strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000),
		"arrays":       `{"a":` + strings.Repeat(`[`, 9000) + strings.Repeat("]", 9000) + "}",
		"unknown keys": "{" + many(`"k%d":1,`) + `"k":1}`,
		"providers":    `{"provider":{` + many(`"p%d":{},`) + `"k":{}}}`,
	} {
		began := time.Now()
		m := newHome(t, nil)
		_, err := config.Set(m, "/h", []byte(js), getenv)
		gate.Time(t, name, began, 20*time.Second)
		if err == nil {
			t.Errorf("%s: accepted", name)
		} else {
			t.Logf("%s: %.100v", name, err)
		}
		if _, err := m.Lstat("/h/config.toml"); err == nil {
			t.Errorf("%s: something was written", name)
		}
	}
}

// TestFrontMatterIsBounded has the aliases that double with each line.
func TestFrontMatterIsBounded(t *testing.T) {
	text := "---\na0: &a0 [x, x]\n"
	for i := range 40 {
		text += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	m := newHome(t, map[string]string{"agents/a.md": text + "---\n", "agents/b.md": "---\na: " + strings.Repeat("[", 20000) + "\n---\n"})
	began := time.Now()
	c, err := config.Load(m, "/h", getenv)
	if err != nil || len(c.Broken) != 2 || len(c.Agents) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
	gate.Time(t, "load", began, 10*time.Second)
}
