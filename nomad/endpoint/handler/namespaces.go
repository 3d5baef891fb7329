package handler

import (
	"iter"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// NamespaceOf returns the namespace of a request, which defaults to the default namespace.
func NamespaceOf(name string) string {
	if name == "" {
		return nomad.DefaultNamespace
	}
	return name
}

// KnownNamespace returns an error if the namespace does not exist.
func KnownNamespace(snap *state.Snapshot, name string) error {
	if snap.Namespace(nil, name) == nil {
		return apierror.Errorf(404, "Namespace %q does not exist", name)
	}
	return nil
}

// Scope is the namespaces of a list request. The Namespace "*" means all that May allows. For one
// namespace the caller has already checked access.
type Scope struct {
	Namespace string
	May       func(namespace string) bool
}

// Within returns the objects in the namespaces of a list request. It fails if the namespace does
// not exist.
func Within[T any](snap *state.Snapshot, s Scope, all iter.Seq[T], of func(T) string) (iter.Seq[T], error) {
	ns := NamespaceOf(s.Namespace)
	if ns == nomad.AllNamespacesSentinel {
		return page.Only(all, func(o T) bool { return s.May(of(o)) }), nil
	}
	if err := KnownNamespace(snap, ns); err != nil {
		return nil, err
	}
	return page.Only(all, func(o T) bool { return of(o) == ns }), nil
}
