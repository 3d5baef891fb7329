package rpc

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
)

// Access is what the caller of one call may do. It remembers what was asked of it: a
// call is answered only when something was, and what lasts is asked the same again. It
// belongs to one call. The zero Access allows nothing.
type Access struct {
	// Rights is what the caller's policies grant; nil grants nothing.
	Rights *acl.ACL
	// Workload is nil for who is no workload: it reads its own variables without a policy.
	Workload *acl.Workload
	// Off says that there is no access control. Everything is allowed then but the
	// variables of others to a workload.
	Off bool

	asked atomic.Bool
	mu    sync.Mutex
	needs []acl.Question
}

// Need refuses who may not do what the question asks, with a nomad.ErrPermissionDenied
// that names what is missing.
func (a *Access) Need(q acl.Question) error {
	if !a.Allows(q) {
		return Denied(q)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.needs = append(a.needs, q)
	return nil
}

// NeedManagement refuses who has not every right.
func (a *Access) NeedManagement() error {
	if !a.IsManagement() {
		return nomad.Denied("needs a management token")
	}
	return nil
}

// NeedAnywhere refuses a caller that no policy grants one of the rights of the question,
// whatever the name of the thing.
func (a *Access) NeedAnywhere(q acl.Question) error {
	a.asked.Store(true)
	if !a.Rights.AskAnywhere(q) {
		return Denied(q)
	}
	return nil
}

// Denied is the error for a caller without the right.
func Denied(q acl.Question) error {
	return nomad.Denied("needs %s", q)
}

// Allows answers a question, for what is left out of an answer without the right.
func (a *Access) Allows(q acl.Question) bool {
	a.asked.Store(true)
	if q.Kind == acl.Variables {
		q.Workload = a.Workload
		if a.Off && a.Workload != nil {
			return own.Ask(q)
		}
	}
	return a.Rights.Ask(q)
}

// AllowsSearch says whether there may be variables in the namespace that the caller may
// list.
func (a *Access) AllowsSearch(namespace string) bool {
	a.asked.Store(true)
	if a.Off && a.Workload != nil {
		return own.AllowVariableSearch(namespace, a.Workload)
	}
	return a.Rights.AllowVariableSearch(namespace, a.Workload)
}

// own grants nothing but what workloads have without a policy.
var own = acl.New(false)

// IsManagement says whether the caller has every right.
func (a *Access) IsManagement() bool {
	a.asked.Store(true)
	return a.Rights.IsManagement()
}

// Open says that the answer needs no right: whoever has a good token gets it.
func (a *Access) Open() { a.asked.Store(true) }

// Explain answers a question like Allows, and says why.
func (a *Access) Explain(q acl.Question) acl.Decision {
	if q.Kind == acl.Variables {
		q.Workload = a.Workload
	}
	return a.Rights.Explain(q)
}

// again asks what was needed before of what the caller may do now.
func (a *Access) again(before *Access) error {
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

// Check is what a method asks of its callers. The zero Check is none: a method that
// admits whoever has a good token must have another.
type Check struct {
	says string
	ask  func(a *Access, env nomad.Envelope) error
	// first is asked before the body of the request is known.
	first func(a *Access, env nomad.Envelope) error
}

// early returns what can be asked before the body is known, nil if nothing can.
func (c Check) early() func(a *Access, env nomad.Envelope) error {
	if c.first != nil {
		return c.first
	}
	return c.ask
}

// String says what is asked for, as compat/rpc.tsv does, such as: ns:read-job.
func (c Check) String() string { return c.says }

// Questions returns what the check asks of whoever makes a call in the namespace; nothing
// when only the handler knows.
func (c Check) Questions(env nomad.Envelope) []acl.Question {
	if c.ask == nil {
		return nil
	}
	everything := &Access{Rights: acl.New(true)}
	if err := c.ask(everything, env); err != nil {
		return nil // of every right there is none left to ask for
	}
	return everything.needs
}

// Needs is the check of one question that is the same for every request.
func Needs(q acl.Question) Check {
	return Check{says: fmt.Sprintf("%s:%s", q.Kind, q.Rights), ask: func(a *Access, _ nomad.Envelope) error { return a.Need(q) }}
}

// InNamespace asks for one of the rights in the namespace of the request. All
// namespaces at once pass: the handler leaves out what the caller may not see.
func InNamespace(ops ...acl.NamespaceCapability) Check {
	one := InOneNamespace(ops...)
	return one.unlessAll(func(a *Access) error {
		a.Open()
		return nil
	})
}

// InSomeNamespace is InNamespace that refuses a caller who asks for all namespaces and has
// the rights in none.
func InSomeNamespace(ops ...acl.NamespaceCapability) Check {
	one := InOneNamespace(ops...)
	return one.unlessAll(func(a *Access) error { return a.NeedAnywhere(acl.InNamespace("", slices.Clone(ops)...)) })
}

// unlessAll returns the check with another question for requests in all namespaces.
func (c Check) unlessAll(all func(*Access) error) Check {
	unless := func(one func(*Access, nomad.Envelope) error) func(*Access, nomad.Envelope) error {
		return func(a *Access, env nomad.Envelope) error {
			if env.Namespace == nomad.AllNamespacesSentinel {
				return all(a)
			}
			return one(a, env)
		}
	}
	return Check{says: c.says, ask: unless(c.ask), first: unless(c.first)}
}

// InOneNamespace is InNamespace for a method that is about one thing: in all namespaces
// at once there is none, and nobody but who has every right may ask.
func InOneNamespace(ops ...acl.NamespaceCapability) Check {
	return Check{says: fmt.Sprintf("ns:%s", ops), first: InNamed(ops...).ask, ask: func(a *Access, env nomad.Envelope) error {
		return a.Need(acl.InNamespace(cmp.Or(env.Namespace, nomad.DefaultNamespace), slices.Clone(ops)...))
	}}
}

// InNamed asks for one of the rights in the namespace that the request names. If it names none,
// the body can name any: the caller must have one of the rights in some namespace.
func InNamed(ops ...acl.NamespaceCapability) Check {
	return Check{says: fmt.Sprintf("ns:%s", ops), ask: func(a *Access, env nomad.Envelope) error {
		if env.Namespace == "" {
			return a.NeedAnywhere(acl.InNamespace("", slices.Clone(ops)...))
		}
		return a.Need(acl.InNamespace(env.Namespace, slices.Clone(ops)...))
	}}
}

// Somewhere asks for one of the rights on some thing of the kind, whatever its name.
func Somewhere(q acl.Question) Check {
	return Check{says: fmt.Sprintf("%s:%s", q.Kind, q.Rights), ask: func(a *Access, _ nomad.Envelope) error { return a.NeedAnywhere(q) }}
}

// Good is the check of what everybody with a good token, or none, may have.
var Good = Check{says: "any token", ask: func(a *Access, _ nomad.Envelope) error { a.Open(); return nil }}

// Asked is the check of a method whose handler asks, since only it knows the thing in
// question. Says is what it asks for. A call that is answered without a question is
// refused.
func Asked(says string) Check { return Check{says: says} }

// AnyWorkload and AnyNode admit the identities of tasks, and nodes. They are alternatives of
// another check.
var (
	AnyWorkload = Check{says: "any workload", ask: only(func(a *Access) bool { return a.Workload != nil })}
	AnyNode     = Check{says: "any node", ask: only(func(a *Access) bool { return a.Rights == acl.OfNodes })}
)

// only is a check of the kind of caller.
func only(is func(*Access) bool) func(*Access, nomad.Envelope) error {
	return func(a *Access, _ nomad.Envelope) error {
		if !is(a) {
			return nomad.ErrPermissionDenied
		}
		a.Open()
		return nil
	}
}

// And asks for what both checks ask for.
func (c Check) And(other Check) Check {
	return c.with(" and ", other, func(err error, second func() error) error {
		if err != nil {
			return err
		}
		return second()
	})
}

// Or asks for what one of the checks asks for. The error is that of the first.
func (c Check) Or(other Check) Check {
	return c.with(", or ", other, func(err error, second func() error) error {
		if err == nil || second() == nil {
			return nil
		}
		return err
	})
}

// with joins two checks. join gets the answer of the first.
func (c Check) with(word string, other Check, join func(error, func() error) error) Check {
	joined := func(one, two func(*Access, nomad.Envelope) error) func(*Access, nomad.Envelope) error {
		return func(a *Access, env nomad.Envelope) error {
			return join(one(a, env), func() error { return two(a, env) })
		}
	}
	return Check{says: c.says + word + other.says, ask: joined(c.ask, other.ask), first: joined(c.early(), other.early())}
}

// First adds to a check of a handler's own what is asked before the request is decoded.
func (c Check) First(before Check) Check {
	c.first = before.early()
	return c
}

// Early returns what can be asked of a caller before the body of a request is known, nil if
// nothing can. It refuses nobody who may make some call of the method in the namespace of the
// envelope, or in any namespace if that is empty.
func (m Method) Early() func(*Access, nomad.Envelope) error {
	switch m.Rule {
	case Management:
		return func(a *Access, _ nomad.Envelope) error { return a.NeedManagement() }
	case Token:
		return m.Check.early()
	}
	return nil
}

// Needs sets what the method asks of its callers.
func (m Method) Needs(c Check) Method {
	m.Check = c
	return m
}
