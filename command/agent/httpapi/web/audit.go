package web

import (
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/audit"
	"github.com/open-nomad/open-nomad/nomad/message"
)

const (
	// maxHeld bounds the reply that is held back until it is recorded. A larger reply is recorded
	// before its first byte is sent.
	maxHeld = 1 << 20
	// askWhoWithin is the timeout of the RPC that resolves a token.
	askWhoWithin = time.Second
	// knownFor is how long a resolved token is cached. The cache is used for audit records only.
	knownFor = 5 * time.Second
	maxKnown = 1024
	// shortSecret is the minimum length of a secret that is removed from errors.
	shortSecret = 4
)

// audited records the request, calls next, and records the result. If the audit log is enforced and
// recording fails, next is not called.
func (s *Server) audited(w http.ResponseWriter, req *http.Request, next http.HandlerFunc) {
	log := s.cfg.Audit
	if !log.Enabled() {
		next(w, req)
		return
	}
	asked := s.askedFor(req)
	who := s.who(req)
	before := audit.Event{Type: audit.HTTP, Stage: audit.Received, Auth: who, Request: asked}
	if err := log.Record(&before); err != nil {
		s.head(w.Header())
		writeError(w, err)
		return
	}
	asked = before.Request // with its ID
	rec := &recorder{ResponseWriter: w, namespace: asked.Namespace, holds: log.Enforced()}
	rec.done = func(code int, text string) error {
		asked.Namespace = rec.namespace
		return log.Record(&audit.Event{Type: audit.HTTP, Stage: audit.Complete, Auth: who, Request: asked,
			Response: &audit.Response{Status: code, Error: withoutSecrets(text, req)}})
	}
	rec.onToken = func(token string) error {
		who = s.whose(req.Context(), token)
		return log.Record(&audit.Event{Type: audit.HTTP, Stage: audit.Received, Auth: who, Request: asked})
	}
	rec.refuse = func(err error) {
		clear(w.Header())
		s.head(w.Header())
		writeError(w, err)
	}
	completed := false
	defer func() { rec.end(completed) }()
	next(rec, req)
	completed = true
}

// RefusedConn records a connection over a limit, which was closed before a request was read from
// it. If recording fails, the error is only logged: the connection is already refused.
func (s *Server) RefusedConn(c net.Conn) {
	err := s.cfg.Audit.Record(&audit.Event{Type: audit.HTTP, Stage: audit.Complete, Auth: audit.Auth{Kind: audit.KindUnknown},
		Request:  audit.Request{Operation: "connect", RemoteAddress: remoteAddress(c.RemoteAddr().String())},
		Response: &audit.Response{Status: http.StatusTooManyRequests, Error: "too many connections"}})
	if err != nil {
		s.cfg.Log.Warn("audit rejected connection", "err", err)
	}
}

// remoteAddress returns addr, or "unix" for a peer on a unix socket, which has no address.
func remoteAddress(addr string) string {
	if addr == "" || addr == "@" {
		return "unix"
	}
	return addr
}

// askedFor describes a request for the audit log. The query is left out because it can contain a
// token.
func (s *Server) askedFor(req *http.Request) audit.Request {
	namespace := nomad.DefaultNamespace
	if req.URL.RawQuery != "" {
		if v := req.URL.Query().Get("namespace"); v != "" {
			namespace = v
		}
	}
	path := req.URL.EscapedPath()
	if token := Token(req); len(token) >= shortSecret { // for example "acl token info" with a secret ID
		path = strings.ReplaceAll(path, token, "[secret]")
	}
	out := audit.Request{Operation: req.Method, Endpoint: path, Namespace: namespace, RemoteAddress: remoteAddress(req.RemoteAddr),
		UserAgent: req.UserAgent()}
	if strings.HasPrefix(path, "/v1/client/allocation/") && strings.HasSuffix(path, "/exec") {
		out.Object = req.URL.Query().Get("task") // not the command, which can contain secrets
	}
	return out
}

// withoutSecrets replaces the secrets of the request in an error text.
func withoutSecrets(text string, req *http.Request) string {
	if text == "" {
		return ""
	}
	secrets := []string{Token(req)}
	query := req.URL.Query()
	for key, values := range query {
		if !shownKeys[key] {
			secrets = append(secrets, values...)
		}
	}
	for _, s := range secrets {
		if len(s) < shortSecret {
			continue
		}
		text = strings.ReplaceAll(text, s, "[secret]")
		if esc := url.QueryEscape(s); esc != s {
			text = strings.ReplaceAll(text, esc, "[secret]")
		}
	}
	return text
}

// shownKeys lists the query parameters whose values may appear in errors. Their values are names.
var shownKeys = map[string]bool{"namespace": true, "region": true, "prefix": true, "filter": true, "path": true, "task": true, "type": true,
	"origin": true}

// callers caches the bearers of recent tokens by the SHA-256 digest of the token.
type callers struct {
	mu   sync.Mutex
	seen map[[sha256.Size]byte]knownCaller
}

type knownCaller struct {
	auth  audit.Auth
	until time.Time
}

// who returns the caller of a request for the audit log. The lookup has a short timeout, and its
// result does not affect the request.
func (s *Server) who(req *http.Request) audit.Auth { return s.whose(req.Context(), Token(req)) }

// whose returns the bearer of a token for the audit log.
func (s *Server) whose(ctx context.Context, token string) audit.Auth {
	if token == "" {
		return audit.Auth{Kind: audit.KindAnonymous}
	}
	digest := sha256.Sum256([]byte(token))
	now := time.Now()
	if auth, ok := s.known.find(digest, now); ok {
		return auth
	}
	within, cancel := context.WithTimeout(ctx, askWhoWithin)
	defer cancel()
	ask := message.GenericRequest{QueryOptions: message.QueryOptions{Region: s.cfg.Region, AuthToken: token, AllowStale: true}}
	var resp message.ACLWhoAmIResponse
	err := s.cfg.RPC.Call(within, "ACL.WhoAmI", &ask, &resp)
	switch {
	case err == nil:
		return s.known.keep(digest, audit.AuthOf(resp.Identity), now)
	case errors.Is(err, apierror.ErrPermissionDenied), status(err) == http.StatusForbidden:
		return audit.Auth{Kind: audit.KindInvalid}
	case ctx.Err() != nil:
		return audit.Auth{Kind: audit.KindUnknown}
	}
	return s.known.keep(digest, audit.Auth{Kind: audit.KindUnknown}, now)
}

func (c *callers) find(digest [sha256.Size]byte, now time.Time) (audit.Auth, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.seen[digest]
	return k.auth, ok && now.Before(k.until)
}

func (c *callers) keep(digest [sha256.Size]byte, auth audit.Auth, now time.Time) audit.Auth {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil || len(c.seen) >= maxKnown {
		c.seen = map[[sha256.Size]byte]knownCaller{}
	}
	c.seen[digest] = knownCaller{auth, now.Add(knownFor)}
	return auth
}
