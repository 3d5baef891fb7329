package api

// AllocCheckStatus is the latest result of a check of a native service.
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
