package httpapi

import "github.com/open-nomad/open-nomad/nomad/message"

// searchRoutes returns the routes that search objects by prefix or substring. They are reads with a
// body.
func searchRoutes() []route {
	return []route{
		{methods: "PUT POST", path: "/v1/search", call: write("Search.PrefixSearch", body[message.SearchRequest](), whole[message.SearchResponse])},
		{methods: "PUT POST", path: "/v1/search/fuzzy", call: write("Search.FuzzySearch", body[message.FuzzySearchRequest](), whole[message.FuzzySearchResponse])},
	}
}
