package telegramtest

import (
	"errors"
	"fmt"
	"html"
	"slices"
	"strings"

	"crabmem/daemon/lazyregexp"
)

var (
	tag    = lazyregexp.New(`^<(/?)(b|i|s|u|pre|blockquote|code|a)( href="[^"<>]+"| class="language-[^"<>]+")?>`)
	entity = lazyregexp.New(`^&(lt|gt|amp|quot|#[0-9]+);`)
)

// ParseHTML returns the visible text of a message in HTML. Its error is that of the Bot API for
// tags that are unknown, not balanced, or in code, and for other entities.
func ParseHTML(s string) (string, error) {
	var b strings.Builder
	var open []string
	bad := func(what string) (string, error) {
		return "", fmt.Errorf("can't parse entities: %s in %q", what, s)
	}
	for rest := s; rest != ""; {
		switch rest[0] {
		case '<':
			m := tag().FindStringSubmatch(rest)
			if m == nil || m[3] != "" && (m[1] != "" || (m[2] == "a") != strings.Contains(m[3], "href") || m[2] != "a" && m[2] != "code") || m[1] == "" && m[2] == "a" && m[3] == "" {
				return bad("unsupported start tag")
			}
			switch {
			case m[1] == "/" && (len(open) == 0 || open[len(open)-1] != m[2]):
				return bad("unmatched end tag")
			case m[1] == "/":
				open = open[:len(open)-1]
			case slices.Contains(open, "code"), slices.Contains(open, "pre") && m[2] != "code", slices.Contains(open, m[2]):
				return bad("nested tag")
			default:
				open = append(open, m[2])
			}
			rest = rest[len(m[0]):]
		case '&':
			e := entity().FindString(rest)
			if e == "" {
				return bad("entity")
			}
			b.WriteString(html.UnescapeString(e))
			rest = rest[len(e):]
		default:
			n := strings.IndexAny(rest, "<&")
			if n < 0 {
				n = len(rest)
			}
			b.WriteString(rest[:n])
			rest = rest[n:]
		}
	}
	if len(open) > 0 {
		return "", errors.New("can't parse entities: can't find end tag of " + open[0])
	}
	return b.String(), nil
}
