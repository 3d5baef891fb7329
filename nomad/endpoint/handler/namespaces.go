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

// Within returns the objects in the namespace of a list request. It fails if the namespace
// does not exist. For the namespace "*" it keeps the objects in namespaces that may allows.
// For one namespace the caller has already checked access.
func Within[T any](snap *state.Snapshot, name string, all iter.Seq[T], of func(T) string,
	may func(namespace string) bool) (iter.Seq[T], error) {
	ns := NamespaceOf(name)
	if ns == nomad.AllNamespacesSentinel {
		return page.Only(all, func(o T) bool { return may(of(o)) }), nil
	}
	if err := KnownNamespace(snap, ns); err != nil {
		return nil, err
	}
	return page.Only(all, func(o T) bool { return of(o) == ns }), nil
}
