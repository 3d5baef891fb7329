// Package testvars is an HTTP server for tests. It answers reads of variables and services on a unix socket,
// with blocking queries, as the Task API does. The reads need a token.
//
// The server runs until its test ends. Each request has a goroutine.
package testvars

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Token is the token of the requests that the server answers.
const Token = "testvars-token"

// Server holds variables. Its methods may be called concurrently.
type Server struct {
	socket string
	stop   func()

	mu      sync.Mutex
	index   uint64
	vars    map[string]*variable
	pages   map[string]any // by path and query parameter choose
	changed chan struct{}  // closed by the next change
	status  int            // of all responses, 0 for none in particular
	reads   int
	open    int
	maxOpen int
}

type variable struct {
	Namespace, Path          string
	CreateIndex, ModifyIndex uint64
	CreateTime, ModifyTime   int64
	Items                    map[string]string `json:",omitempty"`
}

// New returns a server without a socket, to be used as an http.Handler.
func New() *Server {
	return &Server{index: 10, vars: map[string]*variable{}, pages: map[string]any{}, changed: make(chan struct{})}
}

// Start returns a server on a socket.
func Start(t testing.TB, socket string) *Server {
	t.Helper()
	s := New()
	s.socket = socket
	s.Listen(t)
	t.Cleanup(func() { s.Stop() })
	return s
}

// Stop closes the socket and all connections, as an agent that ends.
func (s *Server) Stop() { s.stop() }

// Listen opens the socket again after Stop.
func (s *Server) Listen(t testing.TB) {
	t.Helper()
	l, err := net.Listen("unix", s.socket)
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	srv := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	var done sync.WaitGroup
	done.Go(func() { _ = srv.Serve(l) }) // its error is that of Close
	s.stop = sync.OnceFunc(func() {
		srv.Close()
		done.Wait()
	})
}

// Set writes a variable in the namespace default.
func (s *Server) Set(path string, items map[string]string) {
	s.change(func() {
		v := s.vars[path]
		if v == nil {
			v = &variable{Namespace: "default", Path: path, CreateIndex: s.index, CreateTime: 1}
		}
		next := *v
		next.ModifyIndex, next.ModifyTime, next.Items = s.index, 2, maps.Clone(items)
		s.vars[path] = &next
	})
}

// Serve sets the JSON answer for a path, such as /v1/service/web. The parameter choose of a request is part of the path:
// /v1/service/web?choose=1|key.
func (s *Server) Serve(path string, body any) { s.change(func() { s.pages[path] = body }) }

// Delete removes a variable.
func (s *Server) Delete(path string) { s.change(func() { delete(s.vars, path) }) }

// Fail answers every request with an error status. 0 ends that.
func (s *Server) Fail(status int) { s.change(func() { s.status = status }) }

// Refuse answers requests for a path with status 403.
func (s *Server) Refuse(path string) { s.change(func() { s.pages[path] = refused{} }) }

// refused is the page of a path that Refuse has got.
type refused struct{}

// Reads returns the number of requests.
func (s *Server) Reads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// MaxOpen returns the maximum number of requests at the same time.
func (s *Server) MaxOpen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.maxOpen
}

func (s *Server) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index++
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.enter(1)
	defer s.enter(-1)
	if r.Header.Get("X-Nomad-Token") != Token {
		http.Error(w, "Permission denied", http.StatusForbidden)
		return
	}
	q := r.URL.Query()
	above, _ := strconv.ParseUint(q.Get("index"), 10, 64) // 0 without a parameter
	wait, err := time.ParseDuration(q.Get("wait"))
	if err != nil {
		wait = 5 * time.Minute
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		path := r.URL.Path
		if choose := q.Get("choose"); choose != "" {
			path += "?choose=" + choose
		}
		a, next := s.answer(path, q.Get("prefix"))
		if a.index > above || a.status != 0 && a.status != http.StatusNotFound || above == 0 {
			a.write(w)
			return
		}
		select {
		case <-next:
		case <-r.Context().Done():
			return
		case <-over.C:
			a.write(w)
			return
		}
	}
}

func (s *Server) enter(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += n
	s.maxOpen = max(s.maxOpen, s.open)
	if n > 0 {
		s.reads++
	}
}

// answer is a response.
type answer struct {
	index  uint64
	status int // 0 is 200
	body   any
}

// answer returns the current response, and a channel that is closed by the next change.
func (s *Server) answer(path, prefix string) (answer, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status != 0 {
		return answer{status: s.status, body: "the test wants an error"}, s.changed
	}
	if body, ok := s.pages[path]; ok {
		if body == (refused{}) {
			return answer{status: http.StatusForbidden, body: "Permission denied"}, s.changed
		}
		return answer{index: s.index, body: body}, s.changed
	}
	name, one := strings.CutPrefix(path, "/v1/var/")
	switch v := s.vars[name]; {
	case one && v == nil:
		return answer{s.index, http.StatusNotFound, "variable not found"}, s.changed
	case one:
		return answer{index: v.ModifyIndex, body: v}, s.changed
	case path != "/v1/vars" && path != "/v1/vars/tree":
		return answer{status: http.StatusNotFound, body: "no such path"}, s.changed
	}
	list := []variable{}
	for _, name := range slices.Sorted(maps.Keys(s.vars)) {
		if strings.HasPrefix(name, prefix) {
			entry := *s.vars[name]
			if path == "/v1/vars" {
				entry.Items = nil
			}
			list = append(list, entry)
		}
	}
	return answer{index: s.index, body: list}, s.changed
}

func (a answer) write(w http.ResponseWriter) {
	w.Header().Set("X-Nomad-Index", strconv.FormatUint(a.index, 10))
	w.Header().Set("X-Nomad-LastContact", "0")
	if a.status != 0 {
		http.Error(w, fmt.Sprint(a.body), a.status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a.body) // the reader is gone when this fails
}
