package rpc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Scope selects the object on which a Need requires its right, or the kind of the caller.
type Scope uint8

// The scopes. The server decides all but the last two.
const (
	// Fixed is the object of the question. It does not depend on the request.
	Fixed Scope = 1
	// Anywhere is any object of the kind of the question, whatever its name.
	Anywhere Scope = 2
	// OneNamespace is the namespace of the request. A request for all namespaces needs all rights.
	OneNamespace Scope = 3
	// ListedNamespaces is the namespace of the request. A request for all namespaces needs nothing,
	// because the handler filters its answer.
	ListedNamespaces Scope = 4
	// SomeNamespace is the namespace of the request. A request for all namespaces needs the right in
	// at least one.
	SomeNamespace Scope = 5
	// AnyCaller requires no right.
	AnyCaller Scope = 6
	// WorkloadCaller requires the identity of a workload.
	WorkloadCaller Scope = 7
	// NodeCaller requires the identity of a node.
	NodeCaller Scope = 8
	// ManagementCaller requires all rights.
	ManagementCaller Scope = 9
	// OfObject is an object that the handler finds. The handler asks for the right.
	OfObject Scope = 10
	// ByHandler is a condition in words, which the handler checks.
	ByHandler Scope = 11
)

// Need is one condition of a Check.
type Need struct {
	Scope Scope
	// Right is required by the scopes with an object. The scopes of namespaces set its name.
	Right acl.Question
	// Text is the condition of the scope ByHandler, or the object of the scope OfObject.
	Text string
}

// Check is the access rule of a method with the rule Token. The zero Check is invalid.
type Check struct {
	// Any holds the alternatives. A caller meets all needs of one of them.
	Any [][]Need
	// First holds alternatives that the server checks before it decodes the request, if the
	// handler checks Any.
	First [][]Need
	// Text describes further rights that some requests need. The handler checks them.
	Text string
}

func one(n Need) Check { return Check{Any: [][]Need{{n}}} }

// Needs returns a check for one right that does not depend on the request.
func Needs(q acl.Question) Check { return one(Need{Scope: Fixed, Right: q}) }

// Somewhere requires one of the rights on any object of the kind, whatever its name.
func Somewhere(q acl.Question) Check { return one(Need{Scope: Anywhere, Right: q}) }

// InNamespace requires one of the rights in the namespace of the request. Requests for all
// namespaces pass: the handler filters its answer.
func InNamespace(ops ...acl.NamespaceCapability) Check {
	return one(Need{Scope: ListedNamespaces, Right: acl.InNamespace("", ops...)})
}

// InSomeNamespace is InNamespace, except that requests for all namespaces need one of the
// rights in at least one namespace.
func InSomeNamespace(ops ...acl.NamespaceCapability) Check {
	return one(Need{Scope: SomeNamespace, Right: acl.InNamespace("", ops...)})
}

// InOneNamespace is InNamespace for a method about a single object. Requests for all namespaces
// need all rights.
func InOneNamespace(ops ...acl.NamespaceCapability) Check {
	return one(Need{Scope: OneNamespace, Right: acl.InNamespace("", ops...)})
}

// Checks of the kind of caller. Token admits the callers of AnyToken: with a valid token, or
// without one.
var (
	AnyToken    = one(Need{Scope: AnyCaller})
	AnyWorkload = one(Need{Scope: WorkloadCaller})
	AnyNode     = one(Need{Scope: NodeCaller})
	Managers    = one(Need{Scope: ManagementCaller})
)

// On is the check of a method whose handler asks for the rights, because it must find the object
// first. The caller needs all of them. An answer is withheld if the handler asked for no right.
func On(object string, rights ...acl.Question) Check {
	var all []Need
	for _, q := range rights {
		all = append(all, Need{Scope: OfObject, Right: q, Text: object})
	}
	return Check{Any: [][]Need{all}}
}

// CheckedByHandler is the check of a method whose handler decides by the identity of the caller.
// text describes the condition. An answer is withheld if the handler calls neither IsManagement nor
// MarkChecked.
func CheckedByHandler(text string) Check { return one(Need{Scope: ByHandler, Text: text}) }

// And requires both checks.
func (c Check) And(other Check) Check {
	var both [][]Need
	for _, a := range c.Any {
		for _, b := range other.Any {
			both = append(both, slices.Concat(a, b))
		}
	}
	c.Any = both
	return c
}

// Or requires one of the checks. The error is that of the first.
func (c Check) Or(other Check) Check {
	c.Any = slices.Concat(c.Any, other.Any)
	return c
}

// Before adds a check that runs before the request is decoded to a check by the handler.
func (c Check) Before(first Check) Check {
	c.First = first.Any
	return c
}

// Also adds a description of the rights that some requests need.
func (c Check) Also(text string) Check {
	c.Text = text
	return c
}

// decidedByHandler reports whether the handler checks the rights.
func (c Check) decidedByHandler() bool { return has(c.Any, Need.decidedByHandler) }

// has reports whether one of the needs has a property.
func has(any [][]Need, is func(Need) bool) bool {
	return slices.ContainsFunc(any, func(all []Need) bool { return slices.ContainsFunc(all, is) })
}

func (n Need) decidedByHandler() bool { return n.Scope == OfObject || n.Scope == ByHandler }

// valid reports whether a method with the rule Token may have the check.
func (c Check) valid() bool {
	unknown := func(n Need) bool { return n.Scope < Fixed || n.Scope > ByHandler }
	empty := func(all []Need) bool { return len(all) == 0 }
	all := slices.Concat(c.Any, c.First)
	return len(c.Any) > 0 && !slices.ContainsFunc(all, empty) && !has(all, unknown) && !has(c.First, Need.decidedByHandler)
}

// String returns the rule, for example "ns:[read-job] of the allocation".
func (c Check) String() string {
	var out []string
	for _, all := range c.Any {
		var needs []string
		for _, n := range all {
			needs = append(needs, n.String())
		}
		out = append(out, strings.Join(needs, " and "))
	}
	text := strings.Join(out, ", or ")
	if c.Text != "" {
		text += "; " + c.Text
	}
	return text
}

// String returns the condition, for example "ns:[read-job]".
func (n Need) String() string {
	switch n.Scope {
	case AnyCaller:
		return "any token"
	case WorkloadCaller:
		return "any workload"
	case NodeCaller:
		return "any node"
	case ManagementCaller:
		return "management"
	case ByHandler:
		return n.Text
	}
	kind := string(n.Right.Kind)
	if n.Right.Kind == acl.Namespaces {
		kind = "ns"
	}
	text := fmt.Sprintf("%s:%s", kind, n.Right.Rights)
	if n.Scope == OfObject {
		text += " of " + n.Text
	}
	return text
}

// Questions returns the rights that the first alternative requires of a caller. It returns none if
// only the handler can decide.
func (c Check) Questions(env message.Envelope) []acl.Question {
	if c.decidedByHandler() || len(c.Any) == 0 {
		return nil
	}
	var out []acl.Question
	for _, n := range c.Any[0] {
		if q, found := n.question(env); found {
			out = append(out, q)
		}
	}
	return out
}

// question returns the right on one object that a request needs. It returns false if the need is
// about no object, or about any.
func (n Need) question(env message.Envelope) (acl.Question, bool) {
	switch n.Scope {
	case Fixed:
		return n.Right, true
	case ListedNamespaces, SomeNamespace:
		if env.Namespace == nomad.AllNamespacesSentinel {
			return acl.Question{}, false
		}
	case OneNamespace:
	default:
		return acl.Question{}, false
	}
	q := n.Right
	q.Name = cmp.Or(env.Namespace, nomad.DefaultNamespace)
	return q, true
}

// Ask refuses a caller who does not meet the check for a request with the envelope. It refuses
// every caller of a check that the handler decides.
func (c Check) Ask(a *Access, env message.Envelope) error {
	return c.ask(func(n Need) error { return n.ask(a, env) })
}

// AskEarly passes every caller that may make some call in the namespace of the envelope. An empty
// namespace means any namespace, because the body of the request may name it.
func (c Check) AskEarly(a *Access, env message.Envelope) error {
	return c.ask(func(n Need) error {
		if env.Namespace == "" && n.ofNamespace() {
			return a.NeedAnywhere(n.Right)
		}
		return n.ask(a, env)
	})
}

// ask returns nil if an alternative has no need that ask refuses, and otherwise the first error.
func (c Check) ask(ask func(Need) error) error {
	denied := error(apierror.ErrPermissionDenied)
	for i, all := range c.Any {
		err := firstError(all, ask)
		if err == nil {
			return nil
		}
		if i == 0 {
			denied = err
		}
	}
	return denied
}

// firstError returns the first error of ask, which refuses an alternative without needs.
func firstError(all []Need, ask func(Need) error) error {
	if len(all) == 0 {
		return apierror.ErrPermissionDenied
	}
	for _, n := range all {
		if err := ask(n); err != nil {
			return err
		}
	}
	return nil
}

// ofNamespace reports whether the need depends on the namespace of the request.
func (n Need) ofNamespace() bool {
	return n.Scope == OneNamespace || n.Scope == ListedNamespaces || n.Scope == SomeNamespace
}

// ask refuses a caller who does not meet the need.
func (n Need) ask(a *Access, env message.Envelope) error {
	if q, found := n.question(env); found {
		return a.Need(q)
	}
	met := false
	switch n.Scope {
	case Anywhere, SomeNamespace:
		return a.NeedAnywhere(n.Right)
	case ManagementCaller:
		return a.NeedManagement()
	case AnyCaller, ListedNamespaces:
		met = true
	case WorkloadCaller:
		met = a.Workload != nil
	case NodeCaller:
		met = a.Rights == acl.OfNodes
	}
	if !met {
		return apierror.ErrPermissionDenied
	}
	return nil
}

// ofCaller reports whether the handler asks for the kind of the caller.
func (n Need) ofCaller() bool { return n.Scope == ManagementCaller || n.Scope == ByHandler }

// asked reports whether the handler asks for the right of the need. Some requests need other rights of the caller than
// those of the row, such as a search for quotas: any question counts.
func (n Need) asked() bool { return n.Scope == OfObject }

// Early returns the check that runs before the request body is decoded, with AskEarly. It returns
// false if the method has none.
func (m Method) Early() (Check, bool) {
	switch {
	case m.Rule == Management:
		return Managers, true
	case m.Rule != Token:
		return Check{}, false
	case m.Check.decidedByHandler():
		return Check{Any: m.Check.First}, len(m.Check.First) > 0
	}
	return m.Check, true
}

// Needs sets the access check of the method.
func (m Method) Needs(c Check) Method {
	m.Check = c
	return m
}
