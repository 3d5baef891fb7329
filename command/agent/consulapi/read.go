package consulapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// The pace of a blocking query.
const (
	// quiet is the pause after a change that does not concern the query.
	quiet = time.Second
	// lookAgain bounds one RPC of a query that reads more than one table, because the RPC waits for changes of one.
	lookAgain = 10 * time.Second
	// writeLimit is the time in which the reader must take the answer.
	writeLimit = 30 * time.Second
)

// call is one round of a request: the parameters, and what its RPCs found.
type call struct {
	*web.Request
	query
	server *Server
	opts   message.QueryOptions // of the RPCs that block
	meta   message.QueryMeta    // of all RPCs
}

// instant returns the options of an RPC that does not block.
func (c *call) instant() message.QueryOptions { return c.server.options(c.Request, c.query) }

// note adds the metadata of an RPC to that of the answer.
func (c *call) note(m message.QueryMeta) {
	c.meta.Index = max(c.meta.Index, m.Index)
	c.meta.LastContact = max(c.meta.LastContact, m.LastContact)
	c.meta.KnownLeader = c.meta.KnownLeader || m.KnownLeader
}

// answer is the answer to a request.
type answer struct {
	status int    // 0 for 200
	body   any    // JSON, nil for none
	raw    []byte // instead of body, if kind is not ""
	kind   string // media type of raw
}

// reader makes the RPCs of a round and returns the answer.
type reader func(c *call) (*answer, error)

// read returns the handler of a route. One that does not wait answers at once, whatever the index.
func (s *Server) read(fetch reader, waits bool) web.Handler {
	return func(r *web.Request) (any, error) {
		q, err := s.parse(r)
		if err != nil {
			return nil, err
		}
		if !waits {
			q.index = 0
		}
		a, meta, err := s.settle(r, q, fetch)
		if err != nil {
			return nil, denied(err)
		}
		s.write(r, q, a, meta)
		return nil, web.ErrDone
	}
}

// settled is an answer in the form in which it is sent.
type settled struct {
	status int
	kind   string
	text   []byte
}

// settle runs rounds until the answer differs from the one that the caller has, or the wait ends.
func (s *Server) settle(r *web.Request, q query, fetch reader) (*settled, message.QueryMeta, error) {
	c := &call{Request: r, query: q, server: s, opts: s.options(r, q)}
	key := keyOf(r)
	if q.index == 0 {
		a, err := c.round(fetch)
		if err == nil {
			s.recent.keep(key, c.meta.Index, a.digest())
		}
		return a, c.meta, err
	}
	caller := callerOf(r)
	if s.slots.Take(caller) == 0 {
		return nil, c.meta, apierror.Errorf(http.StatusTooManyRequests, "too many blocking queries: at most %d of a token and %d in all; "+
			"repeat the request later, or without index", maxBlockedOne, maxBlocked)
	}
	defer s.slots.Release(caller)
	end := time.Now().Add(q.wait + rand.N(q.wait/jitterShare+1))
	before, known := s.recent.find(key, q.index)
	c.opts.MinQueryIndex = q.index
	for {
		c.opts.MaxQueryTime = max(time.Until(end), time.Millisecond)
		c.meta = message.QueryMeta{}
		a, err := c.round(fetch)
		if err != nil {
			return nil, c.meta, err
		}
		digest := a.digest()
		changed := max(1, c.meta.Index) != q.index && !(known && digest == before) // a lower index is that of a restored state
		if changed || !time.Now().Before(end) {
			s.recent.keep(key, c.meta.Index, digest)
			return a, c.meta, nil
		}
		c.opts.MinQueryIndex = max(c.opts.MinQueryIndex, c.meta.Index)
		if err := backoff.Sleep(r.Context(), min(quiet, time.Until(end))); err != nil {
			return nil, c.meta, err
		}
	}
}

// round runs the RPCs once and encodes the answer.
func (c *call) round(fetch reader) (*settled, error) {
	a, err := fetch(c)
	if err != nil {
		return nil, err
	}
	out := &settled{status: a.status, kind: a.kind, text: a.raw}
	if out.status == 0 {
		out.status = http.StatusOK
	}
	if a.kind != "" || a.body == nil {
		return out, nil
	}
	out.kind = "application/json"
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	if c.Pretty() {
		enc.SetIndent("", "    ")
	}
	if err := enc.Encode(a.body); err != nil {
		return nil, err
	}
	out.text = text.Bytes()
	return out, nil
}

// digest returns the same value for equal answers.
func (a *settled) digest() [sha256.Size]byte {
	h := sha256.New()
	_, _ = h.Write([]byte(strconv.Itoa(a.status) + a.kind + "\n")) // a hash never fails
	_, _ = h.Write(a.text)
	return [sha256.Size]byte(h.Sum(nil))
}

// keyOf returns what is the same for all queries of a caller for the same answer.
func keyOf(r *web.Request) [sha256.Size]byte {
	params := r.URL.Query()
	params.Del("index")
	params.Del("wait")
	return sha256.Sum256([]byte(callerOf(r) + "\n" + r.URL.EscapedPath() + "?" + params.Encode()))
}

// denied returns a refusal with the text by which clients of Consul recognise it.
func denied(err error) error {
	if apierror.HTTPStatus(err) != http.StatusForbidden {
		return err
	}
	return apierror.Errorf(http.StatusForbidden, "Permission denied: the token lacks the right, or it does not exist")
}

// write sends an answer.
func (s *Server) write(r *web.Request, q query, a *settled, meta message.QueryMeta) {
	h := r.Reply.Header()
	h.Set("X-Consul-Index", strconv.FormatUint(max(1, meta.Index), 10)) // clients treat 0 as an error
	h.Set("X-Consul-KnownLeader", strconv.FormatBool(meta.KnownLeader))
	h.Set("X-Consul-LastContact", strconv.FormatInt(meta.LastContact.Milliseconds(), 10))
	h.Set("X-Consul-Effective-Consistency", q.consistency())
	h.Set("Vary", "Accept-Encoding")
	if a.kind != "" {
		h.Set("Content-Type", a.kind)
	}
	// A writer without deadlines has no slow reader.
	_ = http.NewResponseController(r.Reply).SetWriteDeadline(time.Now().Add(writeLimit))
	r.Reply.WriteHeader(a.status)
	_, _ = r.Reply.Write(a.text) // the reader is gone when this fails
}

// consistency returns the name of the consistency of the answer.
func (q query) consistency() string {
	switch {
	case q.stale:
		return "stale"
	case q.consistent:
		return "consistent"
	}
	return "leader"
}
