package acl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxTold is the maximum number of rules in the text of a decision.
const maxReported = 5

// Decision is the answer to a Question.
type Decision struct {
	Question Question
	Allowed  bool
	Reason   Reason
	// Rules are the grants that decided: those that deny, or those that grant the right, or
	// else all grants of the closest rules. They are sorted by policy and line.
	Rules []Rule
}

// Rule is a grant in a policy.
type Rule struct {
	Policy string
	Block  string // such as: namespace "prod-*"
	Text   string // such as: policy = "read"; empty if the block has no grants
	Pos    Pos
}

// String returns the position and the text of the rule on one line.
func (r Rule) String() string {
	text := r.Text
	if text == "" {
		text = "no rights set"
	}
	return fmt.Sprintf("policy %q, %s: %s: %s", r.Policy, r.Pos, r.Block, text)
}

// String returns the decision on one line. It contains rights, patterns and policy names,
// so only callers that can read policies may see it.
func (d Decision) String() string {
	verdict := "refused"
	if d.Allowed {
		verdict = "allowed"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s: %s", d.Question, verdict, d.Reason)
	for i, r := range d.Rules {
		if i == maxReported {
			fmt.Fprintf(&b, "; and %d more", len(d.Rules)-i)
			break
		}
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		b.WriteString(sep + r.String())
	}
	return b.String()
}

// Explain decides like Ask, and returns the reason and the deciding rules.
func (a *ACL) Explain(q Question) Decision {
	bits := q.query()
	if bits.words == nil {
		return Decision{Question: q, Reason: ReasonNoRight}
	}
	m := match{keep: true}
	reason := a.decide(bits, &m)
	d := Decision{Question: q, Allowed: reason.allows(), Reason: reason}
	kind := q.Kind
	switch reason {
	case ReasonNamespaceDenied:
		kind = Namespaces
	case ReasonGranted, ReasonDenied, ReasonNotGranted:
	default:
		return d
	}
	for _, r := range m.rules {
		for _, s := range r.from {
			if m.deny && s.deny || d.Allowed && s.rights&bits.want != 0 || reason == ReasonNotGranted {
				d.Rules = append(d.Rules, Rule{Policy: s.policy, Block: title(kind, r), Text: s.text, Pos: s.at})
			}
		}
	}
	slices.SortFunc(d.Rules, func(a, b Rule) int {
		return cmp.Or(strings.Compare(a.Policy, b.Policy), a.Pos.Line-b.Pos.Line, a.Pos.Column-b.Pos.Column,
			strings.Compare(a.Block, b.Block), strings.Compare(a.Text, b.Text))
	})
	return d
}

// title returns the head of a rule's block in the syntax of a policy.
func title(kind Kind, r *rule) string {
	switch {
	case kind == Variables:
		return fmt.Sprintf("namespace %q variables path %q", r.space.text, r.name.text)
	case r.name.text == "":
		return string(kind)
	}
	return fmt.Sprintf("%s %q", kind, r.name.text)
}
