package rpc

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Access is the rights of the caller of one call. It records which rights were checked: a call
// without any check gets no answer, and a long-lived stream repeats its checks. An Access
// belongs to one call. The zero Access allows nothing.
type Access struct {
	// Rights holds the rights that the caller's policies grant; nil grants nothing.
	Rights *acl.ACL
	// Workload is nil unless the caller is a workload. A workload reads its own variables
	// without a policy.
	Workload *acl.Workload
	// Disabled means that access control is disabled. Everything is allowed then, except that a
	// workload only reads variables.
	Disabled bool

	asked atomic.Bool
	mu    sync.Mutex
	needs []acl.Question
}

// Need returns nomad.ErrPermissionDenied, with the missing right, if the caller lacks the right
// in q.
func (a *Access) Need(q acl.Question) error {
	if !a.Allows(q) {
		return Denied(q)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.needs = append(a.needs, q)
	return nil
}

// NeedManagement refuses callers without all rights.
func (a *Access) NeedManagement() error {
	if !a.IsManagement() {
		return nomad.Denied("needs a management token")
	}
	return nil
}

// NeedAnywhere refuses a caller that has none of the rights in q on any object, whatever the
// object's name.
func (a *Access) NeedAnywhere(q acl.Question) error {
	a.asked.Store(true)
	if !a.Rights.AskAnywhere(q) {
		return Denied(q)
	}
	return nil
}

// Denied is the error for a caller without the right in q.
func Denied(q acl.Question) error {
	return nomad.Denied("needs %s", q)
}

// Allows reports whether the caller has the right in q. Handlers use it to filter lists.
func (a *Access) Allows(q acl.Question) bool {
	a.asked.Store(true)
	if q.Kind == acl.Variables {
		q.Workload = a.Workload
		if a.Disabled && a.Workload != nil {
			return withoutControl.Ask(q)
		}
	}
	return a.Rights.Ask(q)
}

// AllowsSearch reports whether the caller may list variables anywhere in the namespace.
func (a *Access) AllowsSearch(namespace string) bool {
	a.asked.Store(true)
	if a.Disabled && a.Workload != nil {
		return withoutControl.AllowVariableSearch(namespace, a.Workload)
	}
	return a.Rights.AllowVariableSearch(namespace, a.Workload)
}

// withoutControl grants workloads the rights on variables that they have when access control is disabled: they read what
// an anonymous caller can read. They write nothing, as with access control.
var withoutControl = acl.New(false, readVariables())

// readVariables parses a constant policy. It panics on an error.
func readVariables() *acl.Policy {
	p, err := acl.Parse(`namespace "*" {
  variables {
    path "*" {
      capabilities = ["read", "list"]
    }
  }
}`)
	if err != nil {
		panic(err)
	}
	return p
}

// IsManagement reports whether the caller has all rights.
func (a *Access) IsManagement() bool {
	a.asked.Store(true)
	return a.Rights.IsManagement()
}

// MarkChecked records that the answer needs no right beyond a valid token.
func (a *Access) MarkChecked() { a.asked.Store(true) }

// Explain is Allows with a reason.
func (a *Access) Explain(q acl.Question) acl.Decision {
	if q.Kind == acl.Variables {
		q.Workload = a.Workload
	}
	return a.Rights.Explain(q)
}

// repeat repeats the checks of an earlier Access with the current rights.
func (a *Access) repeat(before *Access) error {
	if before.Rights == a.Rights {
		return nil
	}
	before.mu.Lock()
	needs := slices.Clone(before.needs)
	before.mu.Unlock()
	for _, q := range needs {
		if err := a.Need(q); err != nil {
			return err
		}
	}
	return nil
}

// Check is the access check of a method. The zero Check is invalid for methods with the rule
// Token.
type Check struct {
	desc string
	ask  func(a *Access, env message.Envelope) error
	// first runs before the request body is decoded.
	first func(a *Access, env message.Envelope) error
}

// early returns the part of the check that does not need the request body, or nil.
func (c Check) early() func(a *Access, env message.Envelope) error {
	if c.first != nil {
		return c.first
	}
	return c.ask
}

// String returns the required rights, for example "ns:read-job".
func (c Check) String() string { return c.desc }

// Questions returns the rights that the check requires of a caller in the namespace. It returns
// none if only the handler can decide.
func (c Check) Questions(env message.Envelope) []acl.Question {
	if c.ask == nil {
		return nil
	}
	everything := &Access{Rights: acl.New(true)}
	if err := c.ask(everything, env); err != nil {
		return nil // every right has been excluded
	}
	return everything.needs
}

// Needs returns a check for one right that does not depend on the request.
func Needs(q acl.Question) Check {
	return Check{desc: fmt.Sprintf("%s:%s", q.Kind, q.Rights), ask: func(a *Access, _ message.Envelope) error { return a.Need(q) }}
}

// InNamespace requires one of the rights in the namespace of the request. Requests for all
// namespaces pass: the handler filters its answer.
func InNamespace(ops ...acl.NamespaceCapability) Check {
	one := InOneNamespace(ops...)
	return one.unlessAll(func(a *Access) error {
		a.MarkChecked()
		return nil
	})
}

// InSomeNamespace is InNamespace, except that requests for all namespaces need one of the
// rights in at least one namespace.
func InSomeNamespace(ops ...acl.NamespaceCapability) Check {
	one := InOneNamespace(ops...)
	return one.unlessAll(func(a *Access) error { return a.NeedAnywhere(acl.InNamespace("", slices.Clone(ops)...)) })
}

// unlessAll returns the check with another check for requests for all namespaces.
func (c Check) unlessAll(all func(*Access) error) Check {
	unless := func(one func(*Access, message.Envelope) error) func(*Access, message.Envelope) error {
		return func(a *Access, env message.Envelope) error {
			if env.Namespace == nomad.AllNamespacesSentinel {
				return all(a)
			}
			return one(a, env)
		}
	}
	return Check{desc: c.desc, ask: unless(c.ask), first: unless(c.first)}
}

// InOneNamespace is InNamespace for a method about a single object. Requests for all namespaces
// need all rights.
func InOneNamespace(ops ...acl.NamespaceCapability) Check {
	return Check{desc: fmt.Sprintf("ns:%s", ops), first: InNamed(ops...).ask, ask: func(a *Access, env message.Envelope) error {
		return a.Need(acl.InNamespace(cmp.Or(env.Namespace, nomad.DefaultNamespace), slices.Clone(ops)...))
	}}
}

// InNamed requires one of the rights in the namespace that the request names. If it names none,
// the body may name any, so the caller needs one of the rights in some namespace.
func InNamed(ops ...acl.NamespaceCapability) Check {
	return Check{desc: fmt.Sprintf("ns:%s", ops), ask: func(a *Access, env message.Envelope) error {
		if env.Namespace == "" {
			return a.NeedAnywhere(acl.InNamespace("", slices.Clone(ops)...))
		}
		return a.Need(acl.InNamespace(env.Namespace, slices.Clone(ops)...))
	}}
}

// Somewhere requires one of the rights on any object of the kind, whatever its name.
func Somewhere(q acl.Question) Check {
	return Check{desc: fmt.Sprintf("%s:%s", q.Kind, q.Rights), ask: func(a *Access, _ message.Envelope) error { return a.NeedAnywhere(q) }}
}

// AnyToken admits every caller with a valid token or without a token.
var AnyToken = Check{desc: "any token", ask: func(a *Access, _ message.Envelope) error { a.MarkChecked(); return nil }}

// CheckedByHandler is the check of a method whose handler checks the rights itself, because they depend on
// the object. desc describes the rights. If the handler checks nothing, the call fails.
func CheckedByHandler(desc string) Check { return Check{desc: desc} }

// AnyWorkload and AnyNode admit the identities of workloads and of nodes. They are used as
// alternatives of another check.
var (
	AnyWorkload = Check{desc: "any workload", ask: only(func(a *Access) bool { return a.Workload != nil })}
	AnyNode     = Check{desc: "any node", ask: only(func(a *Access) bool { return a.Rights == acl.OfNodes })}
)

// only returns a check of the kind of caller.
func only(is func(*Access) bool) func(*Access, message.Envelope) error {
	return func(a *Access, _ message.Envelope) error {
		if !is(a) {
			return nomad.ErrPermissionDenied
		}
		a.MarkChecked()
		return nil
	}
}

// And requires both checks.
func (c Check) And(other Check) Check {
	return c.with(" and ", other, func(err error, second func() error) error {
		if err != nil {
			return err
		}
		return second()
	})
}

// Or requires one of the checks. The error is that of the first.
func (c Check) Or(other Check) Check {
	return c.with(", or ", other, func(err error, second func() error) error {
		if err == nil || second() == nil {
			return nil
		}
		return err
	})
}

// with joins two checks. join receives the result of the first.
func (c Check) with(word string, other Check, join func(error, func() error) error) Check {
	joined := func(one, two func(*Access, message.Envelope) error) func(*Access, message.Envelope) error {
		return func(a *Access, env message.Envelope) error {
			return join(one(a, env), func() error { return two(a, env) })
		}
	}
	return Check{desc: c.desc + word + other.desc, ask: joined(c.ask, other.ask), first: joined(c.early(), other.early())}
}

// First adds a check that runs before the request is decoded to a check by the handler.
func (c Check) First(before Check) Check {
	c.first = before.early()
	return c
}

// Early returns the check that runs before the request body is decoded, or nil. It passes every
// caller that may make some call of the method in the namespace of the envelope. An empty
// namespace means any namespace.
func (m Method) Early() func(*Access, message.Envelope) error {
	switch m.Rule {
	case Management:
		return func(a *Access, _ message.Envelope) error { return a.NeedManagement() }
	case Token:
		return m.Check.early()
	}
	return nil
}

// Needs sets the access check of the method.
func (m Method) Needs(c Check) Method {
	m.Check = c
	return m
}
