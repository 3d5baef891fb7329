package acl_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/acl"
)

// The names are few and similar, so that several patterns match the same name.
var (
	someNames    = []string{"a", "ab", "aba", "b", "bab", "nomad/jobs/a", "nomad/jobs"}
	somePatterns = []string{"*", "a", "a*", "*a", "ab", "ab*", "*b*", "a*a", "**", "b", "*b", "nomad/jobs/a", "nomad/*", "nomad/jobs", "*/a"}
)

// some returns the text of a random policy. With denies, all its grants are denies.
func some(r *rand.Rand, denies bool) string {
	word := func(words ...string) string {
		if denies {
			return "deny"
		}
		return words[r.IntN(len(words))]
	}
	pattern := func(path bool) string {
		for {
			p := somePatterns[r.IntN(len(somePatterns))]
			if path || !strings.Contains(p, "/") {
				return p
			}
		}
	}
	blocks := map[string]string{}
	for range 1 + r.IntN(4) {
		switch r.IntN(4) {
		case 0, 1:
			head, paths := fmt.Sprintf("namespace %q", pattern(false)), map[string]string{}
			for range r.IntN(4) {
				p := pattern(true)
				paths[p] = fmt.Sprintf("path %q { capabilities = [%q] }\n", p, word(append(slices.Clone(variableRights), "deny")...))
			}
			body := ""
			if len(paths) == 0 || r.IntN(2) == 0 {
				body = fmt.Sprintf("policy = %q\n", word("read", "write", "scale", "deny"))
			}
			if len(paths) > 0 {
				body += "variables {\n"
				for _, p := range paths {
					body += p
				}
				body += "}\n"
			}
			blocks[head] = body
		case 2:
			kind := []string{"node_pool", "host_volume"}[r.IntN(2)]
			blocks[fmt.Sprintf("%s %q", kind, pattern(false))] = fmt.Sprintf("policy = %q\n", word("read", "write", "deny"))
		default:
			kind := []string{"node", "agent", "operator", "quota", "plugin"}[r.IntN(5)]
			blocks[kind] = fmt.Sprintf("policy = %q\n", word("read", "write", "deny"))
		}
	}
	var b strings.Builder
	for head, body := range blocks {
		fmt.Fprintf(&b, "%s {\n%s}\n", head, body)
	}
	return b.String()
}

// askAll returns questions for everything, without a workload and for one.
func askAll() []acl.Question {
	plain := slices.DeleteFunc(slices.Clone(someNames), func(n string) bool { return strings.Contains(n, "/") })
	return append(questions(plain, someNames, nil), questions(plain[:2], someNames, &acl.Workload{Namespace: "a", Job: "a"})...)
}

// TestDenyNeverAllowsMore checks 200 random sets of policies.
func TestDenyNeverAllowsMore(t *testing.T) {
	r, ask, allowed, fewer := rand.New(rand.NewPCG(1, 2)), askAll(), 0, 0
	for range 200 {
		texts := []string{some(r, false), some(r, false)}
		policies := []*acl.Policy{parse(t, texts[0]), parse(t, texts[1])}
		denies := some(r, true)
		before, after := acl.New(false, policies...), acl.New(false, append(policies, parse(t, denies))...)
		for _, q := range ask {
			was, is := before.Explain(q), after.Explain(q)
			if is.Allowed && !was.Allowed {
				t.Fatalf("a deny allows more\n%s\n%s\n%s%s--- denied ---\n%s", was, is, texts[0], texts[1], denies)
			}
			if was.Allowed {
				allowed++
			}
			if was.Allowed && !is.Allowed {
				fewer++
			}
		}
	}
	if allowed == 0 || fewer == 0 {
		t.Errorf("%d allowed, %d denied: the random policies are too weak a test", allowed, fewer)
	}
}

func TestOrderDoesNotMatter(t *testing.T) {
	r, ask := rand.New(rand.NewPCG(3, 4)), askAll()
	for range 100 {
		var policies []*acl.Policy
		for i := range 3 {
			p := parse(t, some(r, r.IntN(4) == 0))
			p.Name = fmt.Sprint("p", i)
			policies = append(policies, p)
		}
		first := acl.New(false, policies...)
		slices.Reverse(policies)
		second := acl.New(false, policies...)
		for _, q := range ask {
			if a, b := first.Explain(q), second.Explain(q); a.String() != b.String() || len(a.Rules) != len(b.Rules) {
				t.Fatalf("%s\n%s", a, b)
			}
		}
	}
}
