package message

import "github.com/open-nomad/open-nomad/nomad/catalog"

// ServiceRegistrationUpsertRequest is the request of ServiceRegistration.Upsert and its log entry. All registrations
// are written, or none.
type ServiceRegistrationUpsertRequest struct {
	Services []*catalog.Registration
	WriteRequest
}

// ServiceRegistrationUpsertResponse is the reply of ServiceRegistration.Upsert.
type ServiceRegistrationUpsertResponse struct{ WriteMeta }

// ServiceRegistrationDeleteByIDRequest is the request of ServiceRegistration.DeleteByID and its log entry. The
// namespace is that of the request.
type ServiceRegistrationDeleteByIDRequest struct {
	ID string
	WriteRequest
}

// ServiceRegistrationDeleteByIDResponse is the reply of ServiceRegistration.DeleteByID.
type ServiceRegistrationDeleteByIDResponse struct{ WriteMeta }

// ServiceRegistrationDeleteByNodeIDRequest is a log entry that older servers wrote.
type ServiceRegistrationDeleteByNodeIDRequest struct {
	NodeID string
	WriteRequest
}

// ServiceRegistrationListRequest is the request of ServiceRegistration.List.
type ServiceRegistrationListRequest struct{ QueryOptions }

// ServiceRegistrationListResponse is the reply of ServiceRegistration.List.
type ServiceRegistrationListResponse struct {
	Services []*catalog.NamespaceServices
	QueryMeta
}

// ServiceRegistrationByNameRequest is the request of ServiceRegistration.GetService. Choose is "<count>|<key>", or
// empty for all registrations.
type ServiceRegistrationByNameRequest struct {
	ServiceName string
	Choose      string
	QueryOptions
}

// ServiceRegistrationByNameResponse is the reply of ServiceRegistration.GetService.
type ServiceRegistrationByNameResponse struct {
	Services []*catalog.Registration
	QueryMeta
}

// AllocServiceRegistrationsRequest is the request of Alloc.GetServiceRegistrations.
type AllocServiceRegistrationsRequest struct {
	AllocID string
	QueryOptions
}

// AllocServiceRegistrationsResponse is the reply of Alloc.GetServiceRegistrations. Services is nil if the allocation
// does not exist.
type AllocServiceRegistrationsResponse struct {
	Services []*catalog.Registration
	QueryMeta
}

// JobServiceRegistrationsRequest is the request of Job.GetServiceRegistrations.
type JobServiceRegistrationsRequest struct {
	JobID string
	QueryOptions
}

// JobServiceRegistrationsResponse is the reply of Job.GetServiceRegistrations. Services is nil if the job does not
// exist.
type JobServiceRegistrationsResponse struct {
	Services []*catalog.Registration
	QueryMeta
}

// ServiceInstancesRequest is the request of ServiceRegistration.Instances. An empty ServiceName selects all services of
// the namespace, and an empty NodeID all nodes.
type ServiceInstancesRequest struct {
	ServiceName string
	NodeID      string
	QueryOptions
}

// ServiceInstancesResponse is the reply of ServiceRegistration.Instances.
type ServiceInstancesResponse struct {
	Instances []*catalog.Instance
	QueryMeta
}

// ServiceVersion is a service of which a node knows a version. Version is the one of the last ServiceState, or "".
type ServiceVersion struct {
	Namespace string
	Name      string
	Version   string
}

// ServiceState is the registrations of a service. Version changes with them.
type ServiceState struct {
	Namespace string
	Name      string
	Version   string
	Instances []*catalog.Instance
}

// ServiceWatchRequest is the request of ServiceRegistration.Watch. The call waits, MaxQueryTime at most, until a
// service has another version than that of the request.
type ServiceWatchRequest struct {
	Services []ServiceVersion
	QueryOptions
}

// ServiceWatchResponse is the reply of ServiceRegistration.Watch. It has only the services whose version differs from
// that of the request. A service without registrations has a version too.
type ServiceWatchResponse struct {
	Services []*ServiceState
	QueryMeta
}
