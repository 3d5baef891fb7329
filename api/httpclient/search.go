package httpclient

import (
	"net/http"

	"github.com/open-nomad/open-nomad/api"
)

// Search is the handle for searches.
type Search struct{ client *Client }

// Search returns the handle for searches.
func (c *Client) Search() *Search { return &Search{c} }

// PrefixSearch finds the IDs of a context that begin with a prefix.
func (s *Search) PrefixSearch(prefix string, context api.SearchContext, q *QueryOptions) (*api.SearchResponse, *api.QueryMeta, error) {
	out := new(api.SearchResponse)
	meta, err := s.client.queryBody(http.MethodPut, "/v1/search", &api.SearchRequest{Prefix: prefix, Context: context}, out, q)
	return out, meta, err
}

// FuzzySearch finds the names of a context that contain text.
func (s *Search) FuzzySearch(text string, context api.SearchContext, q *QueryOptions) (*api.FuzzySearchResponse, *api.QueryMeta, error) {
	out := new(api.FuzzySearchResponse)
	meta, err := s.client.queryBody(http.MethodPut, "/v1/search/fuzzy", &api.FuzzySearchRequest{Text: text, Context: context}, out, q)
	return out, meta, err
}
