package api

// SearchContext is the kind of objects to search. "" and "all" mean all kinds.
type SearchContext string

// SearchRequest is a search for IDs that begin with a prefix.
type SearchRequest struct {
	Prefix  string
	Context SearchContext
}

// SearchResponse contains the matching IDs by context, and whether they are truncated.
type SearchResponse struct {
	Matches     map[SearchContext][]string
	Truncations map[SearchContext]bool
}

// FuzzySearchRequest is a search for names that contain a text.
type FuzzySearchRequest struct {
	Text    string
	Context SearchContext
}

// FuzzyMatch is a matching name with its scope.
type FuzzyMatch struct {
	ID    string
	Scope []string `json:",omitempty"`
}

// FuzzySearchResponse contains the matches by context, best first, and whether they are
// truncated.
type FuzzySearchResponse struct {
	Matches     map[SearchContext][]FuzzyMatch
	Truncations map[SearchContext]bool
}
