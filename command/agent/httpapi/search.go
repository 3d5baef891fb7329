package httpapi

import "github.com/open-nomad/open-nomad/nomad"

// searchRoutes returns the routes that search objects by prefix or substring. They are reads with a
// body.
func searchRoutes() []route {
	return []route{
		{methods: "PUT POST", path: "/v1/search", call: write("Search.PrefixSearch", body[nomad.SearchRequest](), whole[nomad.SearchResponse])},
		{methods: "PUT POST", path: "/v1/search/fuzzy", call: write("Search.FuzzySearch", body[nomad.FuzzySearchRequest](), whole[nomad.FuzzySearchResponse])},
	}
}
