package httpapi

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// route is one row of the table. The first segment that begins with a colon is the parameter. It
// may contain slashes, escaped or not, because job IDs can. Further parameters match one segment
// each and are not passed to the handler.
type route struct {
	methods string // "GET" or "PUT POST"; empty for any
	path    string
	handle  func(*request) (any, error)
	// call replaces handle in a route whose handler makes one RPC. The agent checks the right of
	// the RPC before it reads the body.
	call call
	cors bool
	// unbounded means that limits { http_max_request_body } does not apply.
	unbounded bool

	prefix, suffix string
	param          bool
}

// call is a handler and the RPC that it makes.
type call struct {
	method string
	handle func(*request) (any, error)
}

// router finds the route of a request.
type router struct {
	exact map[string][]*route
	param []*route // longest prefix first, then longest suffix
}

func newRouter(table []route) *router {
	rt := &router{exact: map[string][]*route{}}
	for i := range table {
		r := &table[i]
		if r.call.method != "" {
			r.handle = r.call.handle
		}
		before, after, ok := strings.Cut(r.path, ":")
		if !ok {
			rt.exact[r.path] = append(rt.exact[r.path], r)
			continue
		}
		r.param, r.prefix = true, before
		if i := strings.IndexByte(after, '/'); i >= 0 {
			r.suffix = after[i:]
		}
		rt.param = append(rt.param, r)
	}
	slices.SortStableFunc(rt.param, func(a, b *route) int {
		if n := len(b.prefix) - len(a.prefix); n != 0 {
			return n
		}
		return len(b.suffix) - len(a.suffix)
	})
	return rt
}

// Routes lists the routes of the server as "METHOD path", with the names of parameters.
func (s *Server) Routes() []string {
	var out []string
	for _, r := range s.table() {
		for _, method := range strings.Fields(cmp.Or(r.methods, "GET PUT POST DELETE")) {
			out = append(out, method+" "+r.path)
		}
	}
	return out
}

// match returns the route and its parameter. If only the method differs, it returns the allowed
// methods.
func (rt *router) match(method, path string) (found *route, param string, allowed []string) {
	for _, r := range rt.exact[path] {
		if r.takes(method) {
			return r, "", nil
		}
		allowed = append(allowed, strings.Fields(r.methods)...)
	}
	if len(allowed) > 0 {
		return nil, "", allowed
	}
	shape := ""
	for _, r := range rt.param {
		p, ok := r.extract(path)
		if !ok || (shape != "" && shape != r.prefix+r.suffix) {
			continue
		}
		shape = r.prefix + r.suffix
		if r.takes(method) {
			return r, p, nil
		}
		allowed = append(allowed, strings.Fields(r.methods)...)
	}
	return nil, "", allowed
}

func (r *route) takes(method string) bool {
	return r.methods == "" || slices.Contains(strings.Fields(r.methods), method) ||
		r.cors && method == http.MethodOptions
}

// extract returns the unescaped parameter of path.
func (r *route) extract(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, r.prefix)
	if !ok {
		return "", false
	}
	rest, ok = cutSuffix(rest, r.suffix)
	if !ok || rest == "" {
		return "", false
	}
	p, err := url.PathUnescape(rest)
	return p, err == nil
}

// cutSuffix removes the segments of a route's suffix from the end of path.
func cutSuffix(path, suffix string) (string, bool) {
	for suffix != "" {
		i, j := strings.LastIndexByte(suffix, '/'), strings.LastIndexByte(path, '/')
		if j < 0 {
			return "", false
		}
		want, got := suffix[i+1:], path[j+1:]
		if got != want && (got == "" || !strings.HasPrefix(want, ":")) {
			return "", false
		}
		suffix, path = suffix[:i], path[:j]
	}
	return path, true
}
