package config

import (
	"regexp"
	"strings"
	"sync"
)

// hiddenArg stands for an argument, or what follows its name.
const hiddenArg = "hidden"

var (
	// secretName is a name of something that nobody else may know, as they are
	// written in flags, variables and headers.
	secretName = lazyRegexp(`(?i)token|secret|passw|passphrase|pwd|(api|access|private|auth|encryption|signing)[-_. ]?key|credential|auth|bearer|cookie|(^|[-_.])(key|pass|pat|sig)$`)
	// secretValue is how keys of well-known services begin, wherever they are.
	secretValue = lazyRegexp(`(^|[^0-9A-Za-z])(sk-|sk_|gh[a-z]_|github_pat_|glpat-|xox[a-z]-|AKIA|AIza|eyJ|(?i:(bearer|basic) ))`)
	variable    = lazyRegexp(`^\$\{[A-Za-z_][A-Za-z0-9_]*\}$`)
)

// lazyRegexp returns a function whose first call compiles expr.
func lazyRegexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// shownArgs are the arguments of a command without what looks like a secret: the
// value of a flag, a variable or a header that is named like one, the user and
// the query of an address, and keys of well-known services. A variable is none.
func shownArgs(v any) any {
	list, ok := v.([]any)
	if !ok {
		return hiddenArg // it is not valid
	}
	out := make([]any, len(list))
	named := false // by the argument before
	for i, e := range list {
		arg, ok := e.(string)
		if !ok {
			out[i] = shown("?", e)
			continue
		}
		flag := strings.HasPrefix(arg, "-")
		if named && !flag {
			out[i] = shownValue(arg)
		} else {
			out[i] = shownArg(arg)
		}
		named = flag && !strings.ContainsAny(arg, "=: ") && secretName().MatchString(arg)
	}
	return out
}

func shownArg(arg string) string {
	if i := strings.IndexAny(arg, "=:"); i >= 0 && !strings.HasPrefix(arg[i:], "://") {
		name, value := arg[:i+1], arg[i+1:]
		if secretName().MatchString(arg[:i]) && strings.TrimSpace(value) != "" {
			return name + shownValue(value)
		}
		return name + shownArg(value)
	}
	if strings.Contains(arg, "://") {
		if text := shownURL(arg).(string); text != "" {
			return text
		}
		return hiddenArg
	}
	if secretValue().MatchString(arg) {
		return hiddenArg
	}
	return arg
}

func shownValue(value string) string {
	if variable().MatchString(value) {
		return value
	}
	return hiddenArg
}

// mergeArgs puts what was hidden of the stored arguments back into those that a
// client sends: where one is as it was shown, and so is the one before.
func mergeArgs(stored, shown, sent any) any {
	old, _ := stored.([]any)
	saw, _ := shown.([]any)
	list, ok := sent.([]any)
	if !ok || len(old) != len(saw) {
		return sent
	}
	before := func(list []any, i int) any {
		if i == 0 {
			return nil
		}
		return list[i-1]
	}
	out := make([]any, len(list))
	used := make([]bool, len(old))
	for i, arg := range list {
		out[i] = arg
		text, ok := arg.(string)
		for j := range saw {
			if ok && !used[j] && saw[j] == text && (old[j] != saw[j]) && (text != hiddenArg || before(saw, j) == before(list, i)) {
				out[i], used[j] = old[j], true
				break
			}
		}
	}
	return out
}
