package login

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/open-nomad/open-nomad/nomad/acls"
)

// Bounds of a binding rule, and of the name of a token.
const (
	maxDescription = 256
	maxTokenName   = 256
)

// CheckRule refuses what is wrong with a binding rule.
func CheckRule(r *acls.BindingRule) error {
	_, _, err := parseRule(r)
	return err
}

// parseRule reads the selector and the bind name of a rule that is valid.
func parseRule(r *acls.BindingRule) (*Selector, template, error) {
	switch {
	case !objectName.MatchString(r.AuthMethod):
		return nil, nil, errors.New("a binding rule needs the name of its auth method")
	case len(r.Description) > maxDescription:
		return nil, nil, fmt.Errorf("the description of a binding rule is longer than %d", maxDescription)
	}
	name, err := parseBindName(r)
	if err != nil {
		return nil, nil, err
	}
	selector, err := ParseSelector(r.Selector)
	return selector, name, err
}

// parseBindName reads what a rule binds.
func parseBindName(r *acls.BindingRule) (template, error) {
	switch r.BindType {
	case acls.BindingRuleBindTypeManagement:
		if r.BindName != "" {
			return nil, errors.New("a binding rule of the type management has no bind name")
		}
		return nil, nil
	case acls.BindingRuleBindTypeRole, acls.BindingRuleBindTypePolicy:
	default:
		return nil, fmt.Errorf("the bind type is role, policy or management, not %q", r.BindType)
	}
	name, err := parseTemplate(r.BindName)
	switch {
	case err != nil:
		return nil, fmt.Errorf("bind name: %w", err)
	case len(name) == 0:
		return nil, errors.New("the bind name is missing")
	}
	for _, p := range name {
		if p.name == "" && !objectName.MatchString(p.text) {
			return nil, fmt.Errorf("the bind name %q holds what no name of a %s has", r.BindName, r.BindType)
		}
	}
	return name, nil
}

// Existing says what may be bound.
type Existing interface {
	// Role returns the ID of a role, "" when there is none with the name.
	Role(name string) (id string)
	// Policy says whether there is a policy with the name.
	Policy(name string) bool
}

// Grant is what who logged in gets.
type Grant struct {
	Management bool
	Policies   []string
	Roles      []*acls.TokenRoleLink
	// Outcomes say for each rule, in their order, what became of it.
	Outcomes []Outcome
}

// Outcome is what became of one rule. It holds names, not what claims say.
type Outcome struct {
	Rule   string
	Bound  bool
	Reason string
}

// Empty says that nothing was bound.
func (g *Grant) Empty() bool { return !g.Management && len(g.Policies) == 0 && len(g.Roles) == 0 }

// Bind finds what rules give to claims: the union of all that match.
func Bind(rules []*acls.BindingRule, c *Claims, there Existing) *Grant {
	g := &Grant{}
	for _, r := range rules {
		reason := g.bind(r, c, there)
		g.Outcomes = append(g.Outcomes, Outcome{Rule: r.ID, Bound: reason == "", Reason: reason})
	}
	if g.Management { // it may do everything: such tokens have no policies
		g.Policies, g.Roles = nil, nil
	}
	return g
}

// bind adds what one rule gives; it returns why it gives nothing.
func (g *Grant) bind(r *acls.BindingRule, c *Claims, there Existing) (reason string) {
	selector, parsed, err := parseRule(r)
	if err != nil {
		return "the rule is not valid: " + err.Error()
	}
	switch ok, missing := selector.Match(c); {
	case missing != "":
		return "its selector names the claim " + missing + ", which is absent"
	case !ok:
		return "its selector does not match"
	}
	if r.BindType == acls.BindingRuleBindTypeManagement {
		g.Management = true
		return ""
	}
	name, missing := parsed.fill(c, nil)
	switch {
	case missing != "":
		return "its bind name holds the claim " + missing + ", which is absent"
	case !objectName.MatchString(name):
		return "its bind name is no name once claims are filled in"
	case r.BindType == acls.BindingRuleBindTypeRole:
		return g.addRole(name, there.Role(name))
	}
	if !there.Policy(name) {
		return "there is no policy with its bind name"
	}
	if !slices.Contains(g.Policies, name) {
		g.Policies = append(g.Policies, name)
	}
	return ""
}

func (g *Grant) addRole(name, id string) (reason string) {
	if id == "" {
		return "there is no role with its bind name"
	}
	if !slices.ContainsFunc(g.Roles, func(l *acls.TokenRoleLink) bool { return l.ID == id }) {
		g.Roles = append(g.Roles, &acls.TokenRoleLink{ID: id, Name: name})
	}
	return ""
}

// TokenName is what a token is called that somebody got by logging in.
func TokenName(m *acls.AuthMethod, c *Claims) (string, error) {
	format, err := parseTemplate(m.TokenNameFormat, methodType, methodName)
	if err != nil {
		return "", fmt.Errorf("the token name format of auth method %q: %w", m.Name, err)
	}
	name, missing := format.fill(c, map[string]string{methodType: m.Type, methodName: m.Name})
	if missing != "" {
		return "", fmt.Errorf("%w: the token name format of auth method %q holds the claim %s, which is absent", ErrDenied, m.Name, missing)
	}
	return printable(name), nil
}

// printable is text that fits in a line, and in the name of a token.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(text, "_"))
	for len(text) > maxTokenName {
		cut := maxTokenName
		for cut > 0 && text[cut]&0xc0 == 0x80 {
			cut-- // not within a character
		}
		text = text[:cut]
	}
	return text
}
