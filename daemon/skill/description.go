package skill

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"crabmem/daemon/lazyregexp"

	"go.yaml.in/yaml/v3"
)

// descriptionLine matches the value of the key description: the rest of its
// line, and the indented lines after it.
var descriptionLine = lazyregexp.New(`(?m)^(description[ \t]*:)[ \t]+(\S.*(?:\n[ \t]+\S.*)*)$`)

// quoteDescription returns a front matter in which an unquoted description is
// quoted, so that YAML reads it as it is written: authors use colons, " #",
// and characters that cannot begin a plain value of YAML. Lines keep their numbers.
func quoteDescription(front []byte) []byte {
	m := descriptionLine().FindSubmatchIndex(front)
	if m == nil {
		return front
	}
	value := strings.TrimSpace(string(front[m[4]:m[5]]))
	var quoted string
	switch isQuoted := value[0] == '"' || value[0] == '\''; {
	case value[0] == '|', value[0] == '>', isQuoted && yaml.Unmarshal([]byte(value), &quoted) == nil:
		return front
	case strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }):
		return front
	}
	lines := strings.Repeat("\n", strings.Count(value, "\n"))
	text := strconv.Quote(strings.Join(strings.Fields(value), " "))
	return slices.Concat(front[:m[3]], []byte(" "+text+lines), front[m[5]:])
}
