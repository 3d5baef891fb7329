package handler

import (
	"errors"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// NeedInNamespace requires one of the rights in the namespace of an object that was looked up by its ID.
// The namespace is "" when the object was not found. A caller without the rights gets the same
// error as for a missing object, so that IDs cannot be guessed.
func NeedInNamespace(c *rpc.Call, namespace string, missing error, ops ...acl.NamespaceCapability) error {
	if namespace != "" && c.Access.Need(acl.InNamespace(namespace, ops...)) == nil {
		return nil
	}
	return lacking(c, missing, ops...)
}

// lacking appends to a not-found error that the object may be hidden. Management callers, and
// all callers when access control is disabled, get the plain error.
func lacking(c *rpc.Call, missing error, ops ...acl.NamespaceCapability) error {
	var coded *apierror.Coded
	if c.Access.Disabled || c.Access.IsManagement() || !errors.As(missing, &coded) {
		return missing
	}
	return apierror.Errorf(coded.Code, "%s%s", coded.Message, apierror.Hidden(texts(ops)...))
}

// NotFoundOrHidden returns the error for a read whose object does not exist or is hidden from the caller.
// It is nil for management callers, which get an empty response.
func NotFoundOrHidden(c *rpc.Call, missing error, ops ...acl.NamespaceCapability) error {
	if c.Access.Disabled || c.Access.IsManagement() {
		return nil
	}
	return lacking(c, missing, ops...)
}

func texts[C ~string](ops []C) []string {
	return page.Each(ops, func(op C) string { return string(op) })
}

// Grants returns a function that reports whether the caller has one of the rights in a
// namespace. Each namespace is checked once.
func Grants(c *rpc.Call, ops ...acl.NamespaceCapability) func(namespace string) bool {
	known := map[string]bool{}
	return func(namespace string) bool {
		may, ok := known[namespace]
		if !ok {
			may = c.Access.Allows(acl.InNamespace(namespace, ops...))
			known[namespace] = may
		}
		return may
	}
}

// ForOperators rejects the identities of tasks and nodes when access control is disabled.
// Without this check they would have an operator's rights. With access control enabled, their
// policies apply.
func ForOperators(c *rpc.Call) error {
	if c.Access.Disabled && c.Identity.Claims != nil {
		return apierror.ErrPermissionDenied
	}
	return nil
}

// NeedAlloc requires one of the rights on an allocation. Alloc is nil if it was not found.
func NeedAlloc(c *rpc.Call, alloc *nomad.Allocation, id string, ops ...acl.NamespaceCapability) error {
	namespace := ""
	if alloc != nil {
		namespace = alloc.Namespace
	}
	return NeedInNamespace(c, namespace, apierror.UnknownAlloc(id), ops...)
}

// NoNode rejects nodes when access control is disabled. Otherwise their policies apply. Workloads
// are allowed.
func NoNode(c *rpc.Call) error {
	if c.Access.Workload != nil {
		return nil
	}
	return ForOperators(c)
}
