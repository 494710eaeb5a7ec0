package config

import (
	"fmt"
	"slices"
	"strings"

	"crabmem/crmem/vfs"
)

// Inspect returns the values of config.toml, or of one of its tables, as [Get] shows them: a
// line each, with the line of the file that sets it, or "default".
func Inspect(fsys vfs.FS, home, section string) (string, error) {
	l, err := open(fsys, home, nil)
	if err != nil {
		return "", err
	}
	defer l.close()
	d, text, err := l.stored()
	if err != nil {
		return "", err
	}
	var lines []string
	var list func(t tree, name, path string)
	list = func(t tree, name, path string) {
		for _, key := range d.sorted(path, t) {
			full, at := strings.TrimPrefix(name+"."+key, "."), path+"\x00"+key
			if below, ok := t[key].(tree); ok {
				list(below, full, at)
				continue
			}
			if full != section && !strings.HasPrefix(full, section+".") && section != "" {
				continue
			}
			from := "default"
			if n, ok := d.lines[at]; ok {
				from = fmt.Sprintf("%s:%d", File, n)
			}
			lines = append(lines, fmt.Sprintf("%s = %s (%s)", full, inline(t[key]), from))
		}
	}
	list(l.show(d.tree, text), "", "")
	if len(lines) == 0 {
		return "", fmt.Errorf("no such section: %q: config_inspect without a section lists all of them", section)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}
