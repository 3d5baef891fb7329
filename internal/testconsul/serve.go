package testconsul

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	defaultWait = 5 * time.Minute
	maxWait     = 10 * time.Minute
)

// call is a request in progress.
type call struct {
	*http.Request
	a   *Agent
	who grants
}

// refusal is an error with its status.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// params are the query parameters that the stand-in implements, or that do not matter to an agent with one node.
var params = []string{"authmethod", "cached", "consistent", "dc", "expanded", "flags", "format", "index", "keys", "near", "passing",
	"raw", "recurse", "replace-existing-checks", "separator", "stale", "tag", "token", "wait"}

// ServeHTTP implements http.Handler.
func (a *Agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.calls = append(a.calls, r.Method+" "+r.URL.Path)
	m := a.mode
	a.mu.Unlock()
	switch {
	case m.Hang:
		a.await(r, time.Time{}, func() bool { return !a.mode.Hang })
	case m.Slow > 0:
		a.await(r, time.Now().Add(m.Slow), func() bool { return false })
	case m.Fail:
		http.Error(w, "rpc error making call: No cluster leader", http.StatusInternalServerError)
		return
	}
	if r.Context().Err() != nil {
		return
	}
	for name := range r.URL.Query() {
		if !slices.Contains(params, name) || name == "token" {
			a.faults.Add("%s %s: query parameter %q", r.Method, r.URL.Path, name)
			http.Error(w, fmt.Sprintf("Invalid query parameter: %q", name), http.StatusBadRequest)
			return
		}
	}
	a.routes.ServeHTTP(w, r)
}

// await waits until a condition is met, which is checked with mu held, the time at the agent's clock has come, or the
// client is gone. A zero time never comes.
func (a *Agent) await(r *http.Request, until time.Time, met func() bool) {
	for {
		a.mu.Lock()
		done, changed, left := met(), a.changed, until.Sub(a.now())
		a.mu.Unlock()
		var timer <-chan time.Time
		if !until.IsZero() {
			timer = time.After(left)
			done = done || left <= 0
		}
		if done {
			return
		}
		select {
		case <-changed:
		case <-timer:
		case <-r.Context().Done():
			return
		}
	}
}

// read serves a blocking query. The function runs with mu held, and returns the answer and its index. What does not
// exist has an index too. Index 0 is for errors that end the query.
func (a *Agent) read(fn func(*call) (any, uint64, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := a.identify(r)
		if err != nil {
			a.answer(w, nil, err)
			return
		}
		asked, wait, err := c.blocking()
		if err != nil {
			a.answer(w, nil, err)
			return
		}
		var v any
		var index uint64
		try := func() bool {
			v, index, err = fn(c)
			return index == 0 || index > asked || asked == 0
		}
		a.mu.Lock()
		limit, start := a.mode.PollLimit, a.now()
		a.mu.Unlock()
		cut := asked > 0 && limit > 0 && limit < wait
		if cut {
			wait = limit
		}
		a.await(r, start.Add(wait), try)
		if cut && index > 0 && index <= asked {
			panic(http.ErrAbortHandler)
		}
		if index > 0 {
			w.Header().Set("X-Consul-Index", strconv.FormatUint(index, 10))
		}
		w.Header().Set("X-Consul-LastContact", "0")
		w.Header().Set("X-Consul-KnownLeader", "true")
		a.answer(w, v, err)
	}
}

// blocking returns the index and the time to wait of a blocking query.
func (c *call) blocking() (index uint64, wait time.Duration, err error) {
	q := c.URL.Query()
	wait = defaultWait
	if text := q.Get("index"); text != "" {
		if index, err = strconv.ParseUint(text, 10, 64); err != nil {
			return 0, 0, c.invalid("Invalid index")
		}
	}
	if text := q.Get("wait"); text != "" {
		if wait, err = time.ParseDuration(text); err != nil {
			return 0, 0, c.invalid("Invalid wait time")
		}
	}
	if dc := q.Get("dc"); dc != "" && dc != datacenter {
		return 0, 0, refuse(http.StatusInternalServerError, "No path to datacenter")
	}
	return index, min(wait, maxWait), nil
}

// write serves a request that does not wait. The function runs with mu held.
func (a *Agent) write(fn func(*call) (any, error)) http.HandlerFunc {
	return a.unlocked(func(c *call) (any, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		return fn(c)
	})
}

// unlocked is write for a function that locks mu itself.
func (a *Agent) unlocked(fn func(*call) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := a.identify(r)
		var v any
		if err == nil {
			v, err = fn(c)
		}
		a.answer(w, v, err)
	}
}

// answer writes a value as JSON, raw bytes, or an error.
func (a *Agent) answer(w http.ResponseWriter, v any, err error) {
	var re *refusal
	switch raw, isRaw := v.([]byte); {
	case errors.As(err, &re):
		http.Error(w, re.text, re.status)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case isRaw:
		w.Write(raw) // fails only if the client is gone
	case v != nil:
		w.Header().Set("Content-Type", "application/json")
		text, err := json.Marshal(v)
		if err != nil {
			a.faults.Add("encode %T: %v", v, err)
		}
		w.Write(append(text, '\n')) // fails only if the client is gone
	}
}

// invalid records a fault of the call, and returns status 400.
func (c *call) invalid(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	c.a.faults.Add("%s %s: %s", c.Method, c.URL.Path, text)
	return refuse(http.StatusBadRequest, "%s", text)
}

// decode reads the body, which must have known fields only.
func (c *call) decode(into any) error {
	body, err := io.ReadAll(c.Body)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return c.invalid("Request decode failed: %v", err)
	}
	if dec.More() {
		return c.invalid("Request decode failed: more than one value")
	}
	return nil
}

// identify returns the call of a request, with the grants of its token.
func (a *Agent) identify(r *http.Request) (*call, error) {
	secret := r.Header.Get("X-Consul-Token")
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && secret == "" {
		secret = bearer
	}
	c := &call{Request: r, a: a}
	if !a.cfg.ACL {
		c.who = grants{all: true}
		return c, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var ok bool
	if c.who, ok = a.grantsOf(secret); !ok {
		a.faults.Add("%s %s: ACL not found", r.Method, r.URL.Path)
		return nil, refuse(http.StatusForbidden, "ACL not found")
	}
	return c, nil
}

// need requires a right, such as write on service web.
func (c *call) need(access, resource, name string) error {
	if c.who.allow(access, resource, name) {
		return nil
	}
	right := fmt.Sprintf("'%s:%s' on %q", resource, access, name)
	c.a.faults.Add("%s %s: Permission denied: %s", c.Method, c.URL.Path, right)
	if c.who.token == nil {
		return refuse(http.StatusForbidden, "Permission denied: anonymous token lacks permission %s", right)
	}
	return refuse(http.StatusForbidden, "Permission denied: token with AccessorID '%s' lacks permission %s", c.who.token.AccessorID, right)
}
