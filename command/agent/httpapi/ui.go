package httpapi

import (
	"net/http"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
)

// uiRoutes returns the routes of the web UI. They are public: the UI is the same for every caller,
// and its requests to the API carry the caller's token.
func (s *Server) uiRoutes() []web.Route {
	serve := func(r *web.Request) (any, error) {
		if !r.IsDry() {
			s.cfg.UI.ServeHTTP(r.Reply, r.Request)
		}
		return nil, web.ErrDone
	}
	return []web.Route{
		{Methods: "GET", Path: "/", Page: true, Handle: toUI},
		{Methods: "GET", Path: "/ui", Page: true, Handle: toUI},
		{Methods: "GET HEAD", Path: "/ui/", Page: true, Handle: serve},
		{Methods: "GET HEAD", Path: "/ui/:page", Page: true, Handle: serve},
	}
}

// toUI redirects to the web UI. It keeps the query, which can contain a one-time token.
func toUI(r *web.Request) (any, error) {
	to := "/ui/"
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	http.Redirect(r.Reply, r.Request, to, http.StatusTemporaryRedirect)
	return nil, web.ErrDone
}
