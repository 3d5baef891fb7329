package testvault

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// rule grants capabilities on a path, which may end in "*" and have "+" for a segment.
type rule struct {
	path         string
	capabilities []string
}

// document is a policy.
type document struct {
	text  string
	rules []rule
}

// defaultPolicy is what every token may do.
const defaultPolicy = `
path "auth/token/lookup-self" { capabilities = ["read"] }
path "auth/token/renew-self" { capabilities = ["update"] }
path "auth/token/revoke-self" { capabilities = ["update"] }
path "sys/leases/renew" { capabilities = ["update"] }
`

var capabilities = []string{"create", "read", "update", "delete", "list", "sudo", "deny"}

var (
	pathRule = regexp.MustCompile(`path\s+"([^"]+)"\s*\{\s*capabilities\s*=\s*\[([^\]]*)\]\s*\}`)
	comment  = regexp.MustCompile(`(?m)#.*$`)
	template = regexp.MustCompile(`\{\{\s*identity\.entity\.aliases\.([^.}]+)\.metadata\.([^ }]+)\s*\}\}`)
)

// parse reads the text of a policy.
func parse(source string) (out document, err error) {
	out.text = source
	text := comment.ReplaceAllString(source, "")
	for _, m := range pathRule.FindAllStringSubmatch(text, -1) {
		r := rule{path: strings.TrimPrefix(m[1], "/")}
		for c := range strings.SplitSeq(m[2], ",") {
			if c = strings.Trim(c, " \t\n\""); c == "" {
				continue
			}
			if !slices.Contains(capabilities, c) {
				return out, fmt.Errorf("path %q: invalid capability %q", r.path, c)
			}
			r.capabilities = append(r.capabilities, c)
		}
		out.rules = append(out.rules, r)
	}
	if rest := strings.TrimSpace(pathRule.ReplaceAllString(text, "")); rest != "" {
		return out, fmt.Errorf("failed to parse policy: %q", rest)
	}
	return out, nil
}

func mustParse(text string) document {
	out, err := parse(text)
	if err != nil {
		panic("testvault: bug: " + err.Error())
	}
	return out
}

// pathOf returns the path of a rule for a token, and false if the token lacks the metadata that it needs.
func (r rule) pathOf(t *token) (string, bool) {
	ok := true
	path := template.ReplaceAllStringFunc(r.path, func(text string) string {
		m := template.FindStringSubmatch(text)
		if t.alias == nil || m[1] != t.alias.accessor {
			ok = false
			return ""
		}
		value, has := t.alias.metadata[m[2]]
		ok = ok && has
		return value
	})
	return path, ok && !strings.Contains(path, "{{")
}

// matches reports whether the path of a rule covers a path.
func matches(pattern, path string) bool {
	prefix, isPrefix := strings.CutSuffix(pattern, "*")
	want, got := strings.Split(prefix, "/"), strings.Split(path, "/")
	for i, w := range want {
		switch {
		case i >= len(got):
			return false
		case isPrefix && i == len(want)-1:
			return strings.HasPrefix(got[i], w)
		case w != "+" && w != got[i]:
			return false
		}
	}
	return len(want) == len(got)
}

// allowed returns the capabilities of a token on a path: those of the rule with the longest path, where one without a
// wildcard comes first. Rules of the same path in several policies add up, and deny wins. The caller holds mu.
func (v *Vault) allowed(t *token, path string) (out []string) {
	best := -1
	for _, name := range t.policies {
		for _, r := range v.policies[name].rules {
			pattern, ok := r.pathOf(t)
			if !ok || !matches(pattern, path) {
				continue
			}
			rank := 2 * len(pattern)
			if !strings.ContainsAny(pattern, "*+") {
				rank++
			}
			if rank > best {
				best, out = rank, nil
			}
			if rank == best {
				out = append(out, r.capabilities...)
			}
		}
	}
	if slices.Contains(out, "deny") {
		return nil
	}
	return out
}

// mayUse reports whether a token has a right on anything below a mount. The caller holds mu.
func (v *Vault) mayUse(t *token, mount string) bool {
	for _, name := range t.policies {
		for _, r := range v.policies[name].rules {
			pattern, ok := r.pathOf(t)
			if ok && (strings.HasPrefix(pattern, mount) || matches(pattern, mount)) && !slices.Contains(r.capabilities, "deny") {
				return true
			}
		}
	}
	return false
}
