package login_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/login"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

var alice = &login.Claims{
	Values: map[string]string{"name": "alice", "team": "eng", "n": "7", "a.b": "dotted", "empty": ""},
	Lists:  map[string][]string{"groups": {"ops", "dev"}, "none": {}},
}

func TestSelectors(t *testing.T) {
	for selector, want := range map[string]bool{
		``:                                           true,
		`value.team == "eng"`:                        true,
		`value.team == eng`:                          true,
		`value.team == "ops"`:                        false,
		`value.team != "ops"`:                        true,
		`value.n == 7`:                               true,
		`value.name matches "^al"`:                   true,
		`value.name not matches "^al"`:               false,
		`"ops" in list.groups`:                       true,
		`"root" not in list.groups`:                  true,
		`list.groups contains "dev"`:                 true,
		`list.groups is not empty`:                   true,
		`list.none is empty`:                         true,
		`list.groups.0 == "ops"`:                     true,
		`any list.groups as g { g == "dev" }`:        true,
		`all list.groups as g { g != "root" }`:       true,
		`all list.groups as i, g { g != "ops" }`:     false,
		`any list.groups as i, _ { i == 0 }`:         true,
		`"/value/a.b" == "dotted"`:                   true,
		`value.empty == ""`:                          true,
		`not value.team == "ops"`:                    true,
		`value.team == "x" or value.name == "alice"`: true,

		// A selector with an absent claim never matches.
		`value.absent == "x"`:                                         false,
		`value.absent != "x"`:                                         false,
		`not value.absent == "x"`:                                     false,
		`not (value.absent == "x")`:                                   false,
		`"x" in list.absent`:                                          false,
		`"x" not in list.absent`:                                      false,
		`not "x" in list.absent`:                                      false,
		`"x" not in value.absent`:                                     false,
		`list.absent is empty`:                                        false,
		`list.absent is not empty`:                                    false,
		`value.absent is empty`:                                       false,
		`value.absent not matches "x"`:                                false,
		`list.absent not contains "x"`:                                false,
		`any list.absent as g { g == "x" }`:                           false,
		`all list.absent as g { g == "x" }`:                           false,
		`not (any list.absent as g { g == "x" })`:                     false,
		`list.groups.5 != "x"`:                                        false,
		`list.none.0 != "x"`:                                          false,
		`value.team == "eng" or value.absent == "x"`:                  false,
		`value.team == "eng" and value.absent != "x"`:                 false,
		`any list.groups as g { g == "dev" and value.absent != "x" }`: false,
		`list.name == "alice"`:                                        false, // a value is not a list

		// A comparison of incompatible types never matches.
		`list.groups == "ops"`:  false,
		`list.groups != "root"`: false,
	} {
		s, err := login.ParseSelector(selector)
		if err != nil {
			t.Errorf("ParseSelector(%s): %v", selector, err)
			continue
		}
		if got, missing := s.Match(alice); got != want || strings.Contains(selector, "absent") != strings.Contains(missing, "absent") {
			t.Errorf("%s matches: %t (missing %q), want %t", selector, got, missing, want)
		}
	}
}

func TestSelectorsRefused(t *testing.T) {
	for _, selector := range []string{`value.team`, `value.team ==`, `team == "eng"`, `claims.team == "eng"`, `"team" in value`,
		`"team" not in value`,
		`value is empty`, `list is nil`, `any value as k, v { v == "eng" }`, `any list.groups as g { g.x == "y" }`,
		`any list.groups as value { value.team == "x" }`,
		`value.a.b == "x"`, `"/value" == "x"`, `"" == "x"`, `list.groups.0.0 == "x"`, strings.Repeat("(", 4000) + `value.x == "y"`,
		`value.x == "` + strings.Repeat("y", 9000) + `"`,
		"\x00", `value.team == "eng" or`, `value.x matches "("`} {
		s, err := login.ParseSelector(selector)
		if err != nil {
			continue
		}
		if ok, _ := s.Match(alice); ok {
			t.Errorf("%.80q matches", selector)
		}
		if selector != `value.x matches "("` {
			t.Errorf("ParseSelector(%.80q) accepts it", selector)
		}
	}
}

func FuzzSelector(f *testing.F) {
	for _, s := range []string{`value.team == "eng"`, `any list.groups as i, g { g != "x" }`, `not "x" in list.absent`,
		`"/list/groups/0" == "ops"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := login.ParseSelector(text)
		if err != nil {
			return
		}
		s.Match(alice)
		if ok, _ := s.Match(&login.Claims{}); ok && (strings.Contains(text, "value.") || strings.Contains(text, "list.")) &&
			!strings.ContainsAny(text, `"`+"`") {
			t.Errorf("%q matches without claims", text)
		}
	})
}

// world has some roles and policies.
type world struct{}

func (world) Role(name string) string {
	if slices.Contains([]string{"eng", "role-alice"}, name) {
		return "id-of-" + name
	}
	return ""
}

func (world) Policy(name string) bool {
	return slices.Contains([]string{"eng", "read-7", "alice"}, name)
}

func rule(bindType, name, selector string) *rbac.BindingRule {
	return &rbac.BindingRule{ID: "r", AuthMethod: "m", BindType: bindType, BindName: name, Selector: selector}
}

func TestBind(t *testing.T) {
	claims := func(pairs ...string) *login.Claims {
		c := &login.Claims{Values: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			c.Values[pairs[i]] = pairs[i+1]
		}
		return c
	}
	tests := []struct {
		name   string
		rules  []*rbac.BindingRule
		claims *login.Claims
		want   string // policies, roles, management
	}{
		{"nothing", nil, alice, "[] [] false"},
		{"policy", []*rbac.BindingRule{rule("policy", "eng", "")}, alice, "[eng] [] false"},
		{"role", []*rbac.BindingRule{rule("role", "eng", "")}, alice, "[] [id-of-eng] false"},
		{"template", []*rbac.BindingRule{rule("role", "role-${value.name}", ""), rule("policy", "read-${ value.n }", "")}, alice,
			"[read-7] [id-of-role-alice] false"},
		{"twice", []*rbac.BindingRule{rule("role", "eng", ""), rule("role", "${value.team}", ""), rule("policy", "eng", ""),
			rule("policy", "eng", "")}, alice, "[eng] [id-of-eng] false"},
		{"no such role or policy", []*rbac.BindingRule{rule("role", "gone", ""), rule("policy", "gone", "")}, alice, "[] [] false"},
		{"absent claim", []*rbac.BindingRule{rule("policy", "${value.absent}", ""), rule("policy", "eng${value.absent}", "")}, alice,
			"[] [] false"},
		{"empty claim", []*rbac.BindingRule{rule("policy", "${value.empty}", "")}, alice, "[] [] false"},
		{"selector", []*rbac.BindingRule{rule("policy", "eng", `value.team == "x"`), rule("policy", "alice", `value.team == "eng"`)}, alice,
			"[alice] [] false"},
		{"management", []*rbac.BindingRule{rule("policy", "eng", ""), rule("management", "", `"ops" in list.groups`)}, alice, "[] [] true"},
		{"management for others", []*rbac.BindingRule{rule("management", "", `"root" in list.groups`)}, alice, "[] [] false"},
		{"management without the claim", []*rbac.BindingRule{rule("management", "", `"guest" not in list.roles`)}, alice, "[] [] false"},
		{"broken rules", []*rbac.BindingRule{rule("admin", "eng", ""), rule("policy", "eng", "value."), rule("policy", "${", ""),
			rule("", "", "")}, alice, "[] [] false"},
		{"a claim is a template", []*rbac.BindingRule{rule("policy", "${value.x}", "")}, claims("x", "${value.y}", "y", "eng"),
			"[] [] false"},
		{"a claim ends a template", []*rbac.BindingRule{rule("policy", "${value.x}${value.y}", "")}, claims("x", "${value.", "y", "z}"),
			"[] [] false"},
		{"slashes", []*rbac.BindingRule{rule("policy", "${value.x}", "")}, claims("x", "../eng"), "[] [] false"},
		{"line ends", []*rbac.BindingRule{rule("policy", "${value.x}", "")}, claims("x", "eng\n"), "[] [] false"},
		{"stars", []*rbac.BindingRule{rule("policy", "${value.x}", "")}, claims("x", "*"), "[] [] false"},
		{"NUL", []*rbac.BindingRule{rule("policy", "${value.x}", "")}, claims("x", "eng\x00"), "[] [] false"},
		{"look-alike", []*rbac.BindingRule{rule("policy", "${value.x}", "")}, claims("x", "еng"), "[] [] false"},
		{"long", []*rbac.BindingRule{rule("policy", "${value.x}", "")}, claims("x", strings.Repeat("e", 129)), "[] [] false"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := login.Bind(tt.rules, tt.claims, world{})
			var roles []string
			for _, r := range g.Roles {
				roles = append(roles, r.ID)
			}
			if got := fmt.Sprint(g.Policies, roles, g.Management); got != tt.want {
				t.Errorf("Bind() = %s, want %s (%+v)", got, tt.want, g.Outcomes)
			}
			if g.Empty() != (tt.want == "[] [] false") || len(g.Outcomes) != len(tt.rules) {
				t.Errorf("Empty() = %t with %d outcomes", g.Empty(), len(g.Outcomes))
			}
		})
	}
}

func TestCheckRule(t *testing.T) {
	for name, r := range map[string]*rbac.BindingRule{
		"no method":              {BindType: "policy", BindName: "x"},
		"unknown type":           rule("admin", "x", ""),
		"no name":                rule("policy", "", ""),
		"name with a slash":      rule("policy", "a/b", ""),
		"name with a star":       rule("policy", "read-*", ""),
		"template of a list":     rule("policy", "${list.groups}", ""),
		"template of something":  rule("policy", "${env.HOME}", ""),
		"nested template":        rule("policy", "${value.${value.x}}", ""),
		"open template":          rule("policy", "${value.x", ""),
		"empty claim name":       rule("policy", "${value.}", ""),
		"function":               rule("role", "${upper(value.x)}", ""),
		"management with a name": rule("management", "x", ""),
		"bad selector":           rule("policy", "x", "value.x =="),
		"long description":       {AuthMethod: "m", BindType: "policy", BindName: "x", Description: strings.Repeat("d", 257)},
	} {
		if err := login.CheckRule(r); err == nil {
			t.Errorf("%s: CheckRule() accepts it", name)
		}
	}
	if err := login.CheckRule(rule("role", "team-${value.team}-x", `value.team != "x"`)); err != nil {
		t.Error(err)
	}
}

func TestTokenName(t *testing.T) {
	m := &rbac.AuthMethod{Name: "ci", Type: "JWT", TokenNameFormat: rbac.DefaultTokenNameFormat}
	if got, err := login.TokenName(m, alice); got != "JWT-ci" || err != nil {
		t.Errorf("TokenName() = %q, %v", got, err)
	}
	m.TokenNameFormat = "${auth_method_name}: ${value.name}"
	if got, _ := login.TokenName(m,
		&login.Claims{Values: map[string]string{"name": "a\nb\x1b[31m\xff" +
			strings.Repeat("é", 300)}}); len(got) > 256 || !strings.HasPrefix(got, "ci: a_b_[31m_é") {
		t.Errorf("TokenName() = %q (%d bytes)", got, len(got))
	}
	if _, err := login.TokenName(m, &login.Claims{}); err == nil {
		t.Error("TokenName() accepts an absent claim")
	}
}
