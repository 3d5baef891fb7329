package acl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxTold is how many rules the text of a decision tells.
const maxTold = 5

// Decision is the answer to a Question.
type Decision struct {
	Question Question
	Allowed  bool
	Reason   Reason
	// Rules is what decided: the words that deny; else those that grant; else all words
	// of the rules that are closest and do not grant. In order of policy and line.
	Rules []Rule
}

// Rule is a word of a policy.
type Rule struct {
	Policy string
	Block  string // such as: namespace "prod-*"
	Text   string // such as: policy = "read"; empty when the block does not say
	Pos    Pos
}

// String returns where the rule stands and what it says, on one line.
func (r Rule) String() string {
	says := r.Text
	if says == "" {
		says = "says nothing of this"
	}
	return fmt.Sprintf("policy %q, %s: %s: %s", r.Policy, r.Pos, r.Block, says)
}

// String returns the decision on one line. It names rights, patterns and policies: it
// is for those who may read them.
func (d Decision) String() string {
	verdict := "refused"
	if d.Allowed {
		verdict = "allowed"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s: %s", d.Question, verdict, d.Reason)
	for i, r := range d.Rules {
		if i == maxTold {
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

// Explain answers like Ask, and says why.
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

// title is how a policy writes the head of a rule.
func title(kind Kind, r *rule) string {
	switch {
	case kind == Variables:
		return fmt.Sprintf("namespace %q variables path %q", r.space.text, r.name.text)
	case r.name.text == "":
		return string(kind)
	}
	return fmt.Sprintf("%s %q", kind, r.name.text)
}
