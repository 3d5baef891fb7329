package web

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
)

// Handler answers a request. It returns the body of the reply, or ErrDone if it has written the
// reply itself.
type Handler func(*Request) (any, error)

// Route is one row of the table. The first segment that begins with a colon is the parameter. It
// may contain slashes, escaped or not, because job IDs can. Further parameters match one segment
// each and are not passed to the handler.
type Route struct {
	Methods string // "GET" or "PUT POST"; empty for any
	Path    string
	Handle  Handler
	// Call replaces Handle in a route whose handler makes one RPC. The agent checks the right of
	// the RPC before it reads the body.
	Call Call
	CORS bool // with ACLs, pages of any origin that send a token may read the reply
	Page bool // a public page without data, to which pages of other origins may link
	// Changes means that a GET changes something or costs much, so that no foreign page may cause it.
	Changes bool
	// Unbounded means that limits { http_max_request_body } does not apply.
	Unbounded bool

	prefix, suffix string
	param          bool
}

// Call is a handler and the RPC that it makes.
type Call struct {
	Method string
	Handle Handler
}

// router finds the route of a request.
type router struct {
	exact map[string][]*Route
	param []*Route // longest prefix first, then most segments after the parameter, then fewest parameters among them
}

func newRouter(table []Route) *router {
	rt := &router{exact: map[string][]*Route{}}
	for i := range table {
		r := &table[i]
		if r.Call.Method != "" {
			r.Handle = r.Call.Handle
		}
		before, after, ok := strings.Cut(r.Path, ":")
		if !ok {
			rt.exact[r.Path] = append(rt.exact[r.Path], r)
			continue
		}
		r.param, r.prefix = true, before
		if i := strings.IndexByte(after, '/'); i >= 0 {
			r.suffix = after[i:]
		}
		rt.param = append(rt.param, r)
	}
	slices.SortStableFunc(rt.param, func(a, b *Route) int {
		return cmp.Or(len(b.prefix)-len(a.prefix), strings.Count(b.suffix, "/")-strings.Count(a.suffix, "/"),
			strings.Count(a.suffix, ":")-strings.Count(b.suffix, ":"), len(b.suffix)-len(a.suffix))
	})
	return rt
}

// Routes lists the routes of the server as "METHOD path", with the names of parameters.
func (s *Server) Routes() []string {
	var out []string
	for _, r := range s.rows {
		for _, method := range strings.Fields(cmp.Or(r.Methods, "GET PUT POST DELETE")) {
			out = append(out, method+" "+r.Path)
		}
	}
	return out
}

// match returns the route and its parameter. If only the method differs, it returns the allowed
// methods.
func (rt *router) match(method, path string) (found *Route, param string, allowed []string) {
	for _, r := range rt.exact[path] {
		if r.takes(method) {
			return r, "", nil
		}
		allowed = append(allowed, strings.Fields(r.Methods)...)
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
		allowed = append(allowed, strings.Fields(r.Methods)...)
	}
	return nil, "", allowed
}

func (r *Route) takes(method string) bool {
	return r.Methods == "" || slices.Contains(strings.Fields(r.Methods), method)
}

// extract returns the unescaped parameter of path.
func (r *Route) extract(path string) (string, bool) {
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
