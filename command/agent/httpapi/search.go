package httpapi

import (
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// searchRoutes returns the routes that search objects by prefix or substring. They are reads with a
// body.
func searchRoutes() []web.Route {
	return []web.Route{
		{Methods: "PUT POST", Path: "/v1/search",
			Call: web.Write("Search.PrefixSearch", web.Body[message.SearchRequest](), web.Full[message.SearchResponse])},
		{Methods: "PUT POST", Path: "/v1/search/fuzzy",
			Call: web.Write("Search.FuzzySearch", web.Body[message.FuzzySearchRequest](), web.Full[message.FuzzySearchResponse])},
	}
}
