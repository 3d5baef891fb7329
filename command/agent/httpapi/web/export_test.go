package web

// Match returns the path of the route of a request, "" for none.
func (s *Server) Match(method, path string) (route, param string, allowed []string) {
	rt, param, allowed := s.routes.match(method, path)
	if rt == nil {
		return "", param, allowed
	}
	return rt.Path, param, allowed
}
