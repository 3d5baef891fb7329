package api

import (
	"net/http"

	"github.com/open-nomad/open-nomad/api/contexts"
)

// SearchRequest is a search for IDs that begin with a prefix.
type SearchRequest struct {
	Prefix  string
	Context contexts.Context
}

// SearchResponse contains the matching IDs by context, and whether they are truncated.
type SearchResponse struct {
	Matches     map[contexts.Context][]string
	Truncations map[contexts.Context]bool
}

// FuzzySearchRequest is a search for names that contain a text.
type FuzzySearchRequest struct {
	Text    string
	Context contexts.Context
}

// FuzzyMatch is a matching name with its scope.
type FuzzyMatch struct {
	ID    string
	Scope []string `json:",omitempty"`
}

// FuzzySearchResponse contains the matches by context, best first, and whether they are
// truncated.
type FuzzySearchResponse struct {
	Matches     map[contexts.Context][]FuzzyMatch
	Truncations map[contexts.Context]bool
}

// Search is the handle for searches.
type Search struct{ client *Client }

// Search returns the handle for searches.
func (c *Client) Search() *Search { return &Search{c} }

// PrefixSearch finds the IDs of a context that begin with a prefix.
func (s *Search) PrefixSearch(prefix string, context contexts.Context, q *QueryOptions) (*SearchResponse, *QueryMeta, error) {
	out := new(SearchResponse)
	meta, err := s.client.queryBody(call{http.MethodPut, "/v1/search", &SearchRequest{Prefix: prefix, Context: context}, out}, q)
	return out, meta, err
}

// FuzzySearch finds the names of a context that contain text.
func (s *Search) FuzzySearch(text string, context contexts.Context, q *QueryOptions) (*FuzzySearchResponse, *QueryMeta, error) {
	out := new(FuzzySearchResponse)
	meta, err := s.client.queryBody(call{http.MethodPut, "/v1/search/fuzzy", &FuzzySearchRequest{Text: text, Context: context}, out}, q)
	return out, meta, err
}
