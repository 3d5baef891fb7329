package login

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// Limits for binding rules and token names.
const (
	maxDescription = 256
	maxTokenName   = 256
)

// CheckRule validates a binding rule.
func CheckRule(r *rbac.BindingRule) error {
	_, _, err := parseRule(r)
	return err
}

// parseRule parses the selector and the bind name of a rule.
func parseRule(r *rbac.BindingRule) (*Selector, template, error) {
	switch {
	case !objectName().MatchString(r.AuthMethod):
		return nil, nil, errors.New("the auth method of the binding rule is missing")
	case len(r.Description) > maxDescription:
		return nil, nil, fmt.Errorf("the description of the binding rule is longer than %d", maxDescription)
	}
	name, err := parseBindName(r)
	if err != nil {
		return nil, nil, err
	}
	selector, err := ParseSelector(r.Selector)
	return selector, name, err
}

// parseBindName parses the bind name of a rule.
func parseBindName(r *rbac.BindingRule) (template, error) {
	switch r.BindType {
	case rbac.BindTypeManagement:
		if r.BindName != "" {
			return nil, errors.New("a binding rule of type management must not have a bind name")
		}
		return nil, nil
	case rbac.BindTypeRole, rbac.BindTypePolicy:
	default:
		return nil, fmt.Errorf("the bind type must be role, policy or management, not %q", r.BindType)
	}
	name, err := parseTemplate(r.BindName)
	switch {
	case err != nil:
		return nil, fmt.Errorf("bind name: %w", err)
	case len(name) == 0:
		return nil, errors.New("the bind name is missing")
	}
	for _, p := range name {
		if p.name == "" && !objectName().MatchString(p.text) {
			return nil, fmt.Errorf("the bind name %q contains characters that are invalid in the name of a %s", r.BindName, r.BindType)
		}
	}
	return name, nil
}

// Lookup looks up the roles and policies that can be bound.
type Lookup interface {
	// Role returns the ID of the role with the name, or "".
	Role(name string) (id string)
	// Policy reports whether the policy exists.
	Policy(name string) bool
}

// Grant holds the roles and policies that a login receives, or full management rights.
type Grant struct {
	Management bool
	Policies   []string
	Roles      []*rbac.TokenRoleLink
	// Outcomes has the result of each rule, in the order of the rules.
	Outcomes []Outcome
}

// Outcome is the result of one rule. It contains names but no claim values.
type Outcome struct {
	Rule   string
	Bound  bool
	Reason string
}

// Empty reports whether nothing was bound.
func (g *Grant) Empty() bool { return !g.Management && len(g.Policies) == 0 && len(g.Roles) == 0 }

// Bind returns the union of the roles and policies that all matching rules bind.
func Bind(rules []*rbac.BindingRule, c *Claims, there Lookup) *Grant {
	g := &Grant{}
	for _, r := range rules {
		reason := g.bind(r, c, there)
		g.Outcomes = append(g.Outcomes, Outcome{Rule: r.ID, Bound: reason == "", Reason: reason})
	}
	if g.Management { // management includes everything: such tokens have no policies
		g.Policies, g.Roles = nil, nil
	}
	return g
}

// bind adds the role or policy that one rule binds. If the rule binds nothing, bind returns the
// reason.
func (g *Grant) bind(r *rbac.BindingRule, c *Claims, there Lookup) (reason string) {
	selector, parsed, err := parseRule(r)
	if err != nil {
		return "the rule is invalid: " + err.Error()
	}
	switch ok, missing := selector.Match(c); {
	case missing != "":
		return "its selector uses the claim " + missing + ", which is absent"
	case !ok:
		return "its selector does not match"
	}
	if r.BindType == rbac.BindTypeManagement {
		g.Management = true
		return ""
	}
	name, missing := parsed.fill(c, nil)
	switch {
	case missing != "":
		return "its bind name uses the claim " + missing + ", which is absent"
	case !objectName().MatchString(name):
		return "its bind name with the claims filled in is not a valid name"
	case r.BindType == rbac.BindTypeRole:
		return g.addRole(name, there.Role(name))
	}
	if !there.Policy(name) {
		return "no policy has its bind name"
	}
	if !slices.Contains(g.Policies, name) {
		g.Policies = append(g.Policies, name)
	}
	return ""
}

func (g *Grant) addRole(name, id string) (reason string) {
	if id == "" {
		return "no role has its bind name"
	}
	if !slices.ContainsFunc(g.Roles, func(l *rbac.TokenRoleLink) bool { return l.ID == id }) {
		g.Roles = append(g.Roles, &rbac.TokenRoleLink{ID: id, Name: name})
	}
	return ""
}

// TokenName returns the name of a token that a login creates.
func TokenName(m *rbac.AuthMethod, c *Claims) (string, error) {
	format, err := parseTemplate(m.TokenNameFormat, methodType, methodName)
	if err != nil {
		return "", fmt.Errorf("the token name format of auth method %q: %w", m.Name, err)
	}
	name, missing := format.fill(c, map[string]string{methodType: m.Type, methodName: m.Name})
	if missing != "" {
		return "", fmt.Errorf("%w: the token name format of auth method %q uses the claim %s, which is absent", ErrDenied, m.Name, missing)
	}
	return printable(name), nil
}

// printable returns text that fits in one line and in a token's name.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(text, "_"))
	for len(text) > maxTokenName {
		end := maxTokenName
		for end > 0 && text[end]&0xc0 == 0x80 {
			end-- // not inside a character
		}
		text = text[:end]
	}
	return text
}
