package message

import "github.com/open-nomad/open-nomad/nomad"

// SearchRequest is the request of Search.PrefixSearch. An empty context means all contexts.
type SearchRequest struct {
	Prefix  string
	Context nomad.Context
	QueryOptions
}

// SearchResponse is the reply of Search.PrefixSearch. It contains the IDs with the prefix by context, and whether the
// list of each context was truncated.
type SearchResponse struct {
	Matches     map[nomad.Context][]string
	Truncations map[nomad.Context]bool
	QueryMeta
}

// FuzzySearchRequest is the request of Search.FuzzySearch. An empty context means all contexts.
type FuzzySearchRequest struct {
	Text    string
	Context nomad.Context
	QueryOptions
}

// FuzzySearchResponse is the reply of Search.FuzzySearch.
type FuzzySearchResponse struct {
	Matches     map[nomad.Context][]nomad.FuzzyMatch
	Truncations map[nomad.Context]bool
	QueryMeta
}
