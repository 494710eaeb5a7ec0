package analysis

import "strings"

// HasQuestion reports whether a text has a question mark that ends a sentence, and not
// one in a URL or in code.
func HasQuestion(text string) bool {
	if strings.ContainsAny(text, "？؟") {
		return true
	}
	for {
		_, rest, found := strings.Cut(text, "?")
		if !found {
			return false
		}
		if rest == "" || strings.IndexByte(" \n\r\t\"')*?!", rest[0]) >= 0 {
			return true
		}
		text = rest
	}
}
