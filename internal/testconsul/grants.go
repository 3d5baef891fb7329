package testconsul

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"
)

// rule grants access to a resource, by name or by prefix.
type rule struct {
	resource, name string
	prefix         bool
	access         string
}

// accesses are the levels of access, lowest first. Each includes the ones before it.
var accesses = []string{"deny", "read", "list", "write"}

// resources are the resources of rules. Those with true have no names.
var resources = map[string]bool{"service": false, "key": false, "node": false, "agent": false, "session": false, "event": false,
	"query": false, "operator": true, "acl": true, "mesh": true, "keyring": true}

var (
	blockRule = regexp.MustCompile(`(\w+?)(_prefix)?\s+"([^"]*)"\s*\{\s*policy\s*=\s*"(\w+)"\s*\}`)
	plainRule = regexp.MustCompile(`(\w+)\s*=\s*"(\w+)"`)
)

// parseRules reads the rules of a policy.
func parseRules(text string) (out []rule, err error) {
	add := func(r rule, plain bool) {
		isPlain, known := resources[r.resource]
		if !known || isPlain != plain || !slices.Contains(accesses, r.access) || r.access == "list" && r.resource != "key" {
			//lint:ignore ST1005 the text is that of Consul
			err = fmt.Errorf("Failed to parse ACL rules: %s %q with policy %q", r.resource, r.name, r.access)
		}
		out = append(out, r)
	}
	for _, m := range blockRule.FindAllStringSubmatch(text, -1) {
		add(rule{m[1], m[3], m[2] != "", m[4]}, false)
	}
	text = blockRule.ReplaceAllString(text, "")
	for _, m := range plainRule.FindAllStringSubmatch(text, -1) {
		add(rule{m[1], "", true, m[2]}, true)
	}
	if rest := strings.TrimSpace(plainRule.ReplaceAllString(text, "")); rest != "" && err == nil {
		//lint:ignore ST1005 the text is that of Consul
		err = fmt.Errorf("Failed to parse ACL rules: %q", rest)
	}
	return out, err
}

// grants are the rights of a token.
type grants struct {
	all   bool
	token *api.ACLToken // nil: no token
	rules []rule
}

// allow reports whether access to a resource is granted. The rule for the exact name decides, else the one with the
// longest prefix. Of several equal rules deny wins, and then the highest access.
func (g grants) allow(access, resource, name string) bool {
	if g.all {
		return true
	}
	best, level := -1, 0
	for _, r := range g.rules {
		length := len(r.name)
		switch {
		case r.resource != resource:
			continue
		case !r.prefix && r.name == name:
			length = len(name) + 1
		case !r.prefix || !strings.HasPrefix(name, r.name):
			continue
		}
		l := slices.Index(accesses, r.access)
		switch {
		case length > best:
			best, level = length, l
		case length == best && (l == 0 || level == 0):
			level = 0
		case length == best:
			level = max(level, l)
		}
	}
	return level > 0 && level >= slices.Index(accesses, access)
}

// serviceIdentity returns the rules of a service identity.
func serviceIdentity(name string) []rule {
	return []rule{{"service", name, false, "write"}, {"service", name + "-sidecar-proxy", false, "write"},
		{"service", "", true, "read"}, {"node", "", true, "read"}}
}

// grantsOf returns the grants of a secret, and whether it is known. The caller holds mu.
func (a *Agent) grantsOf(secret string) (grants, bool) {
	if secret == "" {
		return grants{}, true
	}
	t := a.acl.tokens[secret]
	if t == nil || a.now().Before(t.known) || t.ExpirationTime != nil && !a.now().Before(*t.ExpirationTime) {
		return grants{}, false
	}
	g := grants{all: t.management, token: &t.ACLToken, rules: slices.Clone(t.rules)}
	identities := slices.Clone(t.ServiceIdentities)
	links := slices.Clone(t.Policies)
	for _, link := range t.Roles {
		if role := a.acl.roles[link.ID]; role != nil {
			identities = append(identities, role.ServiceIdentities...)
			links = append(links, role.Policies...)
		}
	}
	for _, link := range links {
		if p := a.acl.policies[link.ID]; p != nil {
			rules, err := parseRules(p.Rules)
			if err != nil {
				panic("testconsul: bug: a policy was not validated: " + err.Error())
			}
			g.rules = append(g.rules, rules...)
		}
	}
	for _, i := range identities {
		g.rules = append(g.rules, serviceIdentity(i.ServiceName)...)
	}
	return g, true
}
