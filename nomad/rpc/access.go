package rpc

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/apierror"
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

	rule  [][]Need    // what the handler must ask for
	asked atomic.Bool // the handler has asked for a right
	mu    sync.Mutex
	needs []acl.Question
}

// expect sets the check that the handler must ask for from now on.
func (a *Access) expect(c Check) { a.rule = c.Any }

// record records that the handler has asked for a right.
func (a *Access) record() {
	if !a.asked.Load() && has(a.rule, Need.asked) {
		a.asked.Store(true)
	}
}

// Need returns apierror.ErrPermissionDenied, with the missing right, if the caller lacks the right
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
		return apierror.Denied("needs a management token")
	}
	return nil
}

// NeedAnywhere refuses a caller that has none of the rights in q on any object, whatever the
// object's name.
func (a *Access) NeedAnywhere(q acl.Question) error {
	a.record()
	if !a.Rights.AskAnywhere(q) {
		return Denied(q)
	}
	return nil
}

// Denied is the error for a caller without the right in q.
func Denied(q acl.Question) error {
	return apierror.Denied("needs %s", q)
}

// Allows reports whether the caller has the right in q. Handlers use it to filter lists.
func (a *Access) Allows(q acl.Question) bool {
	a.record()
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
	a.record()
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
	is := a.Rights.IsManagement()
	if is || has(a.rule, Need.ofCaller) {
		a.asked.Store(true)
	}
	return is
}

// MarkChecked records that the handler needs no right for its answer, for example because the answer
// is empty or about the caller.
func (a *Access) MarkChecked() { a.asked.Store(true) }

// Explain is Allows with a reason.
func (a *Access) Explain(q acl.Question) acl.Decision {
	if q.Kind == acl.Variables {
		q.Workload = a.Workload
	}
	return a.Rights.Explain(q)
}

// same reports whether both have the same rights: those by policies, and those of a workload without a policy.
func (a *Access) same(b *Access) bool {
	if a.Workload == nil || b.Workload == nil {
		return a.Rights == b.Rights && a.Workload == b.Workload
	}
	return a.Rights == b.Rights && *a.Workload == *b.Workload
}

// repeat repeats the checks of an earlier Access with the current rights.
func (a *Access) repeat(before *Access) error {
	if a.same(before) {
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
