package api

import "time"

// AllocCheckStatus is the latest result of a check of a service.
type AllocCheckStatus struct {
	ID         string
	Check      string
	Group      string // the name of the allocation
	Mode       string // healthiness or readiness
	Output     string
	Service    string
	Task       string // "" for a service of the group
	Status     string // success, warning, failure or pending
	StatusCode int    // of HTTP checks
	Timestamp  int64  // in seconds
}

// AllocCheckStatuses holds the results of an allocation by check ID.
type AllocCheckStatuses map[string]AllocCheckStatus

// AllocConsulService is a service of an allocation that its node registers in Consul. It exists only in open-nomad.
type AllocConsulService struct {
	ID, Name string
	Task     string    // "" for a service of the group
	Status   string    // pending, registered or failed
	Since    time.Time // of the registration, or of the first failure in a row
	Failures int       // in a row
	Error    string    // of the last attempt
}
