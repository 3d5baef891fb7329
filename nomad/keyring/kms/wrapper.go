// Package kms wraps root keys by key management services outside of the cluster:
// HashiCorp Vault's transit engine, AWS KMS, Google Cloud KMS, Azure Key Vault. The
// services are spoken to by go-kms-wrapping; what they return is stored as they
// return it, so that any server with the same settings opens it.
//
// A Wrapper connects when it is first asked, and anew after a failure: what it reads
// from files or the environment (a token that was renewed there) is read again. It
// never keeps a plain key, and no text of an error holds one, or a credential.
//
//	unconnected ──asked──▶ connected ──failed──▶ unconnected
//
// The libraries don't all heed their context, so each request runs in a goroutine
// that may outlive its caller. At most maxPending of them do; what comes then is
// refused until one ends. Every request is bounded by callWithin.
package kms

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	wrapping "github.com/hashicorp/go-kms-wrapping/v2"

	"github.com/open-nomad/open-nomad/nomad"
)

const (
	callWithin = 10 * time.Second
	maxPending = 8
	maxReason  = 300 // bytes of what a service says of an error
)

// session is a connection to a service.
type session struct {
	crypter
	close func()
}

// crypter is what every library offers.
type crypter interface {
	Encrypt(ctx context.Context, text []byte, opts ...wrapping.Option) (*wrapping.BlobInfo, error)
	Decrypt(ctx context.Context, blob *wrapping.BlobInfo, opts ...wrapping.Option) ([]byte, error)
}

// Wrapper wraps root keys by one service. It is safe for many goroutines.
type Wrapper struct {
	cfg     Config
	connect func(context.Context, map[string]string) (*session, error)
	pending chan struct{} // holds one for each request under way
	linking chan struct{} // holds one while somebody connects

	mu      sync.Mutex
	now     *session // nil while unconnected
	secrets []string // of the last connection
	closed  bool
}

// New returns a wrapper that has connected to nothing yet. Env reads a variable of
// the environment.
func New(c Config, env func(string) string) (*Wrapper, error) {
	c, faults := c.Complete(env)
	if len(faults) > 0 {
		return nil, fmt.Errorf("keyring %s: %s: %s", c.ID(), faults[0].Key, faults[0].Text)
	}
	connect := connectors[c.Provider]
	if connect == nil {
		return nil, fmt.Errorf("keyring %s: it is no service outside of the cluster", c.ID())
	}
	return &Wrapper{cfg: c, connect: connect, pending: make(chan struct{}, maxPending), linking: make(chan struct{}, 1)}, nil
}

// Provider is the kind of service.
func (w *Wrapper) Provider() string { return w.cfg.Provider }

// ID tells services of a kind apart.
func (w *Wrapper) ID() string { return w.cfg.ID() }

// String shows the ID only.
func (w *Wrapper) String() string { return w.cfg.String() }

// Wrap encrypts a data encryption key and, unless it is empty, an RSA key.
func (w *Wrapper) Wrap(ctx context.Context, _ string, dek, rsa []byte) (*nomad.WrappedKey, error) {
	out := &nomad.WrappedKey{Provider: w.Provider(), ProviderID: w.ID(), WrappedRSAKey: &nomad.BlobInfo{}}
	err := w.do(ctx, func(ctx context.Context, c crypter) (err error) {
		if out.WrappedDataEncryptionKey, err = encrypt(ctx, c, dek); err != nil || len(rsa) == 0 {
			return err
		}
		out.WrappedRSAKey, err = encrypt(ctx, c, rsa)
		return err
	}, dek, rsa)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	return out, nil
}

// Unwrap is the inverse of Wrap.
func (w *Wrapper) Unwrap(ctx context.Context, k *nomad.WrappedKey) (dek, rsa []byte, err error) {
	deks, err := w.library(k.WrappedDataEncryptionKey)
	if err != nil {
		return nil, nil, fmt.Errorf("data encryption key: %w", err)
	}
	var rsas *wrapping.BlobInfo
	if blob := k.WrappedRSAKey; blob != nil && len(blob.Ciphertext) > 0 {
		if rsas, err = w.library(blob); err != nil {
			return nil, nil, fmt.Errorf("RSA part: %w", err)
		}
	}
	type plain struct{ dek, rsa []byte }
	got := make(chan plain, 1)
	err = w.do(ctx, func(ctx context.Context, c crypter) error {
		var p plain
		var err error
		if p.dek, err = c.Decrypt(ctx, deks); err == nil && rsas != nil {
			p.rsa, err = c.Decrypt(ctx, rsas)
		}
		got <- p
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("decrypt: %w", err)
	}
	p := <-got
	return p.dek, p.rsa, nil
}

// Close lets go of the connection.
func (w *Wrapper) Close() {
	w.mu.Lock()
	s := w.now
	w.now, w.closed = nil, true
	w.mu.Unlock()
	if s != nil {
		s.close()
	}
}

// do runs a request over a connection, within ctx. Secrets are kept out of its
// error, besides those of the settings.
func (w *Wrapper) do(ctx context.Context, request func(context.Context, crypter) error, secrets ...[]byte) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	select {
	case w.pending <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%d earlier requests have no answer yet: %w", maxPending, ctx.Err())
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-w.pending }()
		done <- w.attempt(ctx, request)
	}()
	select {
	case err := <-done:
		return w.told(err, secrets)
	case <-ctx.Done():
		return fmt.Errorf("no answer in time: %w", ctx.Err())
	}
}

// attempt connects unless there is a connection, runs the request and lets go of a
// connection over which it failed.
func (w *Wrapper) attempt(ctx context.Context, request func(context.Context, crypter) error) (err error) {
	defer func() {
		if bug := recover(); bug != nil { // of a library, on what a service or a stored key holds
			err = errors.New("the library for this provider cannot deal with the key or the answer")
		}
	}()
	s, err := w.session(ctx)
	if err != nil {
		return err
	}
	bad := true
	defer func() {
		if bad {
			w.drop(s)
		}
	}()
	err = request(ctx, s)
	bad = err != nil
	return err
}

// session returns the connection, made when there is none.
func (w *Wrapper) session(ctx context.Context) (*session, error) {
	select {
	case w.linking <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("connect: %w", ctx.Err())
	}
	defer func() { <-w.linking }()
	w.mu.Lock()
	s := w.now
	w.mu.Unlock()
	if s != nil {
		return s, nil
	}
	keys, err := w.resolved()
	if err != nil {
		return nil, err
	}
	s, err = w.connect(ctx, keys)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	if !w.closed {
		w.now = s
	}
	w.mu.Unlock()
	if w.keeps(s) {
		return s, nil
	}
	s.close()
	return nil, errors.New("this server stops")
}

// resolved returns the settings with the secrets that they only refer to
// (file:///path, env://NAME), and remembers those so that no error tells them.
func (w *Wrapper) resolved() (map[string]string, error) {
	keys := maps.Clone(w.cfg.Keys)
	for name, text := range keys {
		if s, _ := settingOf(w.cfg.Provider, name); !s.refers {
			continue
		}
		if err := wrapping.ParsePaths(&text); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		keys[name] = strings.TrimSpace(text) // files end with a line end
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets = Config{Provider: w.cfg.Provider, Keys: keys}.secrets()
	return keys, nil
}

// keeps says whether the connection is the one in use.
func (w *Wrapper) keeps(s *session) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now == s
}

// drop closes a connection that is no good any more.
func (w *Wrapper) drop(s *session) {
	w.mu.Lock()
	if w.now == s {
		w.now = nil
	}
	w.mu.Unlock()
	s.close()
}

// told makes an error of a library fit for logs: one line, not long, no secret.
func (w *Wrapper) told(err error, plain [][]byte) error {
	if err == nil {
		return nil
	}
	w.mu.Lock()
	secrets := slices.Concat(w.cfg.secrets(), w.secrets)
	w.mu.Unlock()
	for _, p := range plain {
		if len(p) > 0 {
			secrets = append(secrets, string(p), base64.StdEncoding.EncodeToString(p), base64.RawURLEncoding.EncodeToString(p))
		}
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	text := err.Error()
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "<redacted>")
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + " ..."
	}
	return errors.New(text)
}
