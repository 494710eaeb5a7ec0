package config

import (
	"strings"

	"crabmem/daemon/lazyregexp"
)

// hiddenArg replaces an argument or the value after its name.
const hiddenArg = "hidden"

var (
	// secretName matches names of secrets in flags, variables, and headers.
	secretName = lazyregexp.New(`(?i)token|secret|passw|passphrase|pwd|(api|access|private|auth|encryption|signing)[-_. ]?key|credential|auth|bearer|cookie|(^|[-_.])(key|pass|pat|sig)$`)
	// secretValue matches prefixes of keys of well-known services.
	secretValue = lazyregexp.New(`(^|[^0-9A-Za-z])(sk-|sk_|gh[a-z]_|github_pat_|glpat-|xox[a-z]-|AKIA|AIza|eyJ|(?i:(bearer|basic) ))`)
	variable    = lazyregexp.New(`^\$\{([A-Za-z_][A-Za-z0-9_]*|secret:[a-z0-9][a-z0-9-]{0,63})\}$`)
	stored      = lazyregexp.New(`^secret:[a-z0-9][a-z0-9-]{0,63}$`)
)

// shownArgs masks arguments of a command that look like secrets: the value of a
// flag, variable, or header whose name matches secretName, the user and the query
// of an address, and keys of well-known services. It shows ${NAME},
// ${secret:NAME}, and an argument secret:NAME.
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
		switch {
		case stored().MatchString(arg):
			out[i] = arg
		case named && !flag:
			out[i] = shownValue(arg)
		default:
			out[i] = shownArg(arg)
		}
		named = flag && !strings.ContainsAny(arg, "=: ") && secretName().MatchString(arg)
	}
	return out
}

func shownArg(arg string) string {
	if variable().MatchString(arg) {
		return arg
	}
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

// mergeArgs restores masked arguments in a list that a client sent. It restores an
// argument that equals the masked one; for a fully masked argument, the argument
// before must be unchanged, too.
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
