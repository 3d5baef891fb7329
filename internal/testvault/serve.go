package testvault

import (
	"bytes"
	"cmp"
	"crypto/rand"
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

// call is a request in progress.
type call struct {
	*http.Request
	v    *Vault
	path string // without /v1/
	who  *token // nil where no token belongs
}

// answer is the body of an answer.
type answer struct {
	RequestID     string         `json:"request_id"`
	LeaseID       string         `json:"lease_id"`
	Renewable     bool           `json:"renewable"`
	LeaseDuration int            `json:"lease_duration"`
	Data          any            `json:"data"`
	WrapInfo      any            `json:"wrap_info"`
	Warnings      []string       `json:"warnings"`
	Auth          map[string]any `json:"auth"`
	MountType     string         `json:"mount_type"`

	plain  any // the whole body instead
	status int // default: 200
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

// missing is the answer to a path that has nothing: no errors.
var missing = &refusal{status: http.StatusNotFound}

// seconds is a duration that JSON has as a number of seconds or as text.
type seconds time.Duration

func (s *seconds) UnmarshalJSON(text []byte) error {
	raw := strings.Trim(string(text), `"`)
	if n, err := strconv.Atoi(cmp.Or(raw, "0")); err == nil {
		*s = seconds(time.Duration(n) * time.Second)
		return nil
	}
	d, err := time.ParseDuration(raw)
	*s = seconds(d)
	return err
}

func (s seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, int64(time.Duration(s)/time.Second), 10), nil
}

// list is a list of texts that JSON has as a list or as text with commas.
type list []string

func (l *list) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*l = slices.DeleteFunc(strings.Split(one, ","), func(s string) bool { return s == "" })
		return nil
	}
	return json.Unmarshal(text, (*[]string)(l))
}

// ServeHTTP implements http.Handler.
func (v *Vault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	v.calls = append(v.calls, r.Method+" "+r.URL.Path)
	m := v.mode
	v.mu.Unlock()
	switch {
	case m.Hang:
		v.await(r, time.Time{})
	case m.Slow > 0:
		v.await(r, time.Now().Add(m.Slow))
	case m.Status != 0:
		write(w, nil, refuse(m.Status, "injected status"))
		return
	}
	if r.Context().Err() == nil {
		v.routes.ServeHTTP(w, r)
	}
}

// await waits for a time, or until the mode changes if it is zero. It ends early if the client is gone.
func (v *Vault) await(r *http.Request, until time.Time) {
	for {
		v.mu.Lock()
		hangs, changed := v.mode.Hang, v.changed
		v.mu.Unlock()
		var timer <-chan time.Time
		if !until.IsZero() {
			timer = time.After(time.Until(until))
		} else if !hangs {
			return
		}
		select {
		case <-changed:
		case <-timer:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// open serves a request without a token. The function runs without mu.
func (v *Vault) open(fn func(*call) (*answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := v.call(r)
		if r.Header.Get("X-Vault-Token") != "" {
			write(w, nil, c.invalid("a token where none belongs"))
			return
		}
		out, err := fn(c)
		write(w, out, err)
	}
}

// guarded serves a request with a token that has the capability of the method on the path, or update if the path is one
// of an action. The function runs with mu held.
func (v *Vault) guarded(fn func(*call) (*answer, error)) http.HandlerFunc {
	return v.guardedIn(v.cfg.Namespace, fn)
}

// guardedIn is guarded for requests in another namespace.
func (v *Vault) guardedIn(namespace string, fn func(*call) (*answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		defer v.mu.Unlock()
		c := v.call(r)
		err := c.identify(namespace)
		if err == nil {
			err = c.need()
		}
		var out *answer
		if err == nil {
			out, err = fn(c)
		}
		write(w, out, err)
	}
}

func (v *Vault) call(r *http.Request) *call {
	return &call{Request: r, v: v, path: strings.TrimPrefix(r.URL.Path, "/v1/")}
}

// lists reports whether a request is for a list.
func (c *call) lists() bool { return c.Method == "LIST" || c.URL.Query().Get("list") == "true" }

// identify finds the token of a call. The caller holds mu.
func (c *call) identify(namespace string) error {
	if c.v.sealed {
		return refuse(http.StatusServiceUnavailable, "Vault is sealed")
	}
	if got := strings.Trim(c.Header.Get("X-Vault-Namespace"), "/"); got != namespace {
		return c.invalid("namespace %q, want %q", got, namespace)
	}
	if namespace == c.v.cfg.Namespace && !c.v.namespace.exists {
		c.fault("the namespace does not exist")
		return refuse(http.StatusNotFound, "namespace not found")
	}
	c.v.expire()
	id := c.Header.Get("X-Vault-Token")
	if c.who = c.v.tokens[id]; c.who != nil {
		return nil
	}
	if c.path == "auth/token/renew-self" {
		c.v.renewedLate(id)
	}
	what := "unknown token"
	if id == "" {
		what = "missing client token"
	}
	c.fault("permission denied: %s", what)
	return unknownToken()
}

// need requires the capability of the call. The caller holds mu.
func (c *call) need() error {
	want := []string{"read"}
	switch {
	case c.lists():
		want = []string{"list"}
	case c.Method == http.MethodDelete:
		want = []string{"delete"}
	case c.Method == http.MethodPut || c.Method == http.MethodPost:
		want = []string{"update", "create"}
	}
	has := c.v.allowed(c.who, c.path)
	if slices.ContainsFunc(want, func(w string) bool { return slices.Contains(has, w) }) {
		return nil
	}
	c.fault("permission denied: %s is not allowed by the policies %q", want[0], c.who.policies)
	return refuse(http.StatusForbidden, "1 error occurred:\n\t* permission denied\n\n")
}

func (c *call) fault(format string, args ...any) {
	c.v.faults.Add("%s %s: %s", c.Method, c.URL.Path, fmt.Sprintf(format, args...))
}

// invalid records a fault of the call, and returns status 400.
func (c *call) invalid(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	c.fault("%s", text)
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
		var number *strconv.NumError // its text could be a secret
		if errors.As(err, &number) {
			err = number.Err
		}
		return c.invalid("failed to parse JSON input: %v", err)
	}
	if dec.More() {
		return c.invalid("failed to parse JSON input: more than one value")
	}
	return nil
}

// empty requires a call without a body, or with an empty object.
func (c *call) empty() error {
	body, err := io.ReadAll(c.Body)
	if text := strings.TrimSpace(string(body)); err == nil && text != "" && text != "{}" && text != "null" {
		return c.invalid("unexpected body")
	}
	return err
}

// write writes an answer or an error. A nil answer is status 204.
func write(w http.ResponseWriter, a *answer, err error) {
	w.Header().Set("Content-Type", "application/json")
	status, body := http.StatusOK, any(a)
	var re *refusal
	switch {
	case errors.As(err, &re):
		list := []string{}
		if re.text != "" {
			list = append(list, re.text)
		}
		status, body = re.status, map[string]any{"errors": list}
	case err != nil:
		status, body = http.StatusInternalServerError, map[string]any{"errors": []string{err.Error()}}
	case a == nil:
		w.WriteHeader(http.StatusNoContent)
		return
	case a.plain != nil:
		status, body = cmp.Or(a.status, status), a.plain
	default:
		a.RequestID = rand.Text()
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client is gone
}
