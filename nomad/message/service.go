package message

// AllocChecksRequest is the request of ClientAllocations.Checks and Allocations.Checks.
type AllocChecksRequest struct {
	QueryOptions
	AllocID string
}

// AllocChecksResponse is the reply of ClientAllocations.Checks and Allocations.Checks.
type AllocChecksResponse struct {
	QueryMeta
	Results map[CheckID]*CheckQueryResult
}
