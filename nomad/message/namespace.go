package message

import "github.com/open-nomad/open-nomad/nomad"

// NamespaceDeleteRequest is the request of Namespace.DeleteNamespaces.
type NamespaceDeleteRequest struct {
	Namespaces []string
	WriteRequest
}

// NamespaceListRequest is the request of Namespace.ListNamespaces.
type NamespaceListRequest struct {
	QueryOptions
}

// NamespaceListResponse is the reply of Namespace.ListNamespaces.
type NamespaceListResponse struct {
	Namespaces []*nomad.Namespace
	QueryMeta
}

// NamespaceSetRequest is the request of Namespace.GetNamespaces.
type NamespaceSetRequest struct {
	Namespaces []string
	QueryOptions
}

// NamespaceSetResponse is the reply of Namespace.GetNamespaces.
type NamespaceSetResponse struct {
	Namespaces map[string]*nomad.Namespace
	QueryMeta
}

// NamespaceSpecificRequest is the request of Namespace.GetNamespace.
type NamespaceSpecificRequest struct {
	Name string
	QueryOptions
}

// NamespaceUpsertRequest is the request of Namespace.UpsertNamespaces.
type NamespaceUpsertRequest struct {
	Namespaces []*nomad.Namespace
	WriteRequest
}

// SingleNamespaceResponse is the reply of Namespace.GetNamespace.
type SingleNamespaceResponse struct {
	Namespace *nomad.Namespace
	QueryMeta
}
