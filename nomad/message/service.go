package message

import "time"

// AllocChecksRequest is the request of ClientAllocations.Checks and Allocations.Checks.
type AllocChecksRequest struct {
	QueryOptions
	AllocID string
}

// AllocChecksResponse is the reply of ClientAllocations.Checks and Allocations.Checks.
type AllocChecksResponse struct {
	QueryMeta
	Results map[CheckID]*CheckQueryResult
	// Consul are the services that the node registers in Consul. Nomad does not have it.
	Consul []*ConsulService `json:",omitempty" codec:",omitempty"`
}

// The states of a service in Consul.
const (
	ConsulPending    = "pending"    // it has not been registered yet
	ConsulRegistered = "registered" // Consul has it as the job declares it
	ConsulFailed     = "failed"     // the last attempt failed, and is repeated
)

// ConsulService is a service that a node registers in Consul.
type ConsulService struct {
	ID, Name string
	Task     string    // "" for a service of the group
	Status   string    // one of the states above
	Since    time.Time // of the registration, or of the first failure in a row; zero before both
	Failures int       // in a row
	Error    string    // of the last attempt
}
