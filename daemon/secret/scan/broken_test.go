package scan

import (
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

var minimum = regexp.MustCompile(`\{[0-9]+|\+$`)

// broken returns copies of a rule, each with one change that a test must detect.
func broken(r rule) map[string]rule {
	never, entropy, short, long := r, r, r, r
	never.keys = "\xff\xfe"
	list := map[string]rule{"never": never}
	if r.form == "" {
		return list
	}
	entropy.entropy = 0
	list["entropy"] = entropy
	at := minimum.FindAllStringIndex(r.form, -1)
	first, last := at[0], at[len(at)-1]
	if r.kind == "aws-secret-key" {
		first = last
	}
	add := func(at []int, n int) string {
		count, _ := strconv.Atoi(r.form[at[0]+1 : at[1]])
		return r.form[:at[0]+1] + strconv.Itoa(count+n) + r.form[at[1]:]
	}
	// The last number may be the maximum of a run without a minimum.
	if r.kind != "mailchimp-key" && r.form[len(r.form)-1] == '}' && r.form[last[0]:last[1]] != "{0" {
		short.form = add(last, -1)
		list["short"] = short
	}
	if r.kind != "mailchimp-key" {
		long.form = add(first, +1)
		list["long"] = long
	}
	return list
}

// isDetected reports whether the keys of a kind, or their near misses, detect that a
// rule is broken.
func isDetected(kind string, r *rand.Rand) bool {
	for _, k := range keys {
		if k.kind != kind {
			continue
		}
		for range 30 {
			before, secret, after := k.random(r)
			at := len(before)
			if !slices.Equal(Find(before+secret+after), []Match{{kind, at, at + len(secret)}}) {
				return true
			}
			for _, miss := range k.misses(r) {
				if before == "" && len(Find(miss)) > 0 || before != "" && len(Find(before+miss+after)) > 0 {
					return true
				}
			}
		}
	}
	if random := composed[kind]; random != nil {
		for range 30 {
			before, secret, after := random(r)
			if list := Find(before + secret + after); len(list) != 1 || list[0].Kind != kind {
				return true
			}
		}
	}
	return false
}

// TestBrokenRules breaks each rule in several ways. The other tests must notice.
func TestBrokenRules(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	defer func() { *loaded() = *load() }()
	count := 0
	for i, original := range rules {
		list := broken(original)
		for _, name := range slices.Sorted(maps.Keys(list)) {
			b := list[name]
			rules[i] = b
			*loaded() = *load()
			if !isDetected(original.kind, r) {
				t.Errorf("%s: %s: not detected: %s", original.kind, name, b.form)
			}
			count++
		}
		rules[i] = original
	}
	t.Logf("broken rules: %d checked", count)
}
