package api

import "net/http"

// Search finds things by their names.
type Search struct{ client *Client }

// Search returns the handle for searches.
func (c *Client) Search() *Search { return &Search{c} }

// SearchContext is a kind of things to search; "" and "all" are every kind.
type SearchContext string

// SearchRequest asks for IDs that begin with a prefix.
type SearchRequest struct {
	Prefix  string
	Context SearchContext
}

// SearchResponse are the IDs that begin with the prefix, and whether there are more, by
// context.
type SearchResponse struct {
	Matches     map[SearchContext][]string
	Truncations map[SearchContext]bool
}

// FuzzySearchRequest asks for names that hold a text.
type FuzzySearchRequest struct {
	Text    string
	Context SearchContext
}

// FuzzyMatch is a name that holds the text, and where it stands.
type FuzzyMatch struct {
	ID    string
	Scope []string `json:",omitempty"`
}

// FuzzySearchResponse are the names that hold the text, the best first, and whether there
// are more, by context.
type FuzzySearchResponse struct {
	Matches     map[SearchContext][]FuzzyMatch
	Truncations map[SearchContext]bool
}

// PrefixSearch finds the IDs of a context that begin with a prefix.
func (s *Search) PrefixSearch(prefix string, context SearchContext, q *QueryOptions) (*SearchResponse, *QueryMeta, error) {
	out := new(SearchResponse)
	meta, err := s.client.queryBody(http.MethodPut, "/v1/search", &SearchRequest{Prefix: prefix, Context: context}, out, q)
	return out, meta, err
}

// FuzzySearch finds the names of a context that hold a text.
func (s *Search) FuzzySearch(text string, context SearchContext, q *QueryOptions) (*FuzzySearchResponse, *QueryMeta, error) {
	out := new(FuzzySearchResponse)
	meta, err := s.client.queryBody(http.MethodPut, "/v1/search/fuzzy", &FuzzySearchRequest{Text: text, Context: context}, out, q)
	return out, meta, err
}
