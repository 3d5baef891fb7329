// Package kms wraps root keys with external key management services: HashiCorp Vault's transit
// engine, AWS KMS, Google Cloud KMS, Azure Key Vault. It uses go-kms-wrapping and stores the
// results unchanged, so that any server with the same settings can open them.
//
// A Wrapper connects on first use and reconnects after a failure. It then reads files and
// environment variables again, since a token may have been renewed there. It never keeps a plain
// key, and its errors contain neither keys nor credentials.
//
//	unconnected ──asked──▶ connected ──failed──▶ unconnected
//
// Some libraries ignore their context. Each request therefore runs in a goroutine that may outlive
// its caller. At most maxPending of them run; further requests wait until one ends. Every request
// is bounded by callWithin.
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

	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

const (
	callWithin = 10 * time.Second
	maxPending = 8
	maxReason  = 300 // maximum length of a service's error
)

// session is a connection to a service.
type session struct {
	crypter
	close func()
}

// crypter is implemented by every library.
type crypter interface {
	Encrypt(ctx context.Context, text []byte, opts ...wrapping.Option) (*wrapping.BlobInfo, error)
	Decrypt(ctx context.Context, blob *wrapping.BlobInfo, opts ...wrapping.Option) ([]byte, error)
}

// Wrapper wraps root keys with one service. It is safe for concurrent use.
type Wrapper struct {
	cfg     Config
	connect func(context.Context, map[string]string) (*session, error)
	pending chan struct{} // one value for each running request
	linking chan struct{} // one value while connecting

	mu      sync.Mutex
	now     *session // nil while unconnected
	secrets []string // of the last connection
	closed  bool
}

// New returns a wrapper that is not connected yet. env reads an environment variable.
func New(c Config, env func(string) string) (*Wrapper, error) {
	c, faults := c.Complete(env)
	if len(faults) > 0 {
		return nil, fmt.Errorf("keyring %s: %s: %s", c.ID(), faults[0].Key, faults[0].Text)
	}
	connect := connectors[c.Provider]
	if connect == nil {
		return nil, fmt.Errorf("keyring %s: not an external service", c.ID())
	}
	return &Wrapper{cfg: c, connect: connect, pending: make(chan struct{}, maxPending), linking: make(chan struct{}, 1)}, nil
}

// Provider returns the kind of service.
func (w *Wrapper) Provider() string { return w.cfg.Provider }

// ID distinguishes services of one kind.
func (w *Wrapper) ID() string { return w.cfg.ID() }

// String shows the ID only.
func (w *Wrapper) String() string { return w.cfg.String() }

// Wrap encrypts a data encryption key and, unless it is empty, an RSA key.
func (w *Wrapper) Wrap(ctx context.Context, _ string, dek, rsa []byte) (*rootkey.Wrapped, error) {
	out := &rootkey.Wrapped{Provider: w.Provider(), ProviderID: w.ID(), WrappedRSAKey: &rootkey.BlobInfo{}}
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

// Unwrap reverses Wrap.
func (w *Wrapper) Unwrap(ctx context.Context, k *rootkey.Wrapped) (dek, rsa []byte, err error) {
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

// Close closes the connection.
func (w *Wrapper) Close() {
	w.mu.Lock()
	s := w.now
	w.now, w.closed = nil, true
	w.mu.Unlock()
	if s != nil {
		s.close()
	}
}

// do runs a request over a connection, within ctx. It redacts secrets, and those of the settings,
// in the error.
func (w *Wrapper) do(ctx context.Context, request func(context.Context, crypter) error, secrets ...[]byte) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	select {
	case w.pending <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%d earlier requests are still pending: %w", maxPending, ctx.Err())
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-w.pending }()
		done <- w.attempt(ctx, request)
	}()
	select {
	case err := <-done:
		return w.redacted(err, secrets)
	case <-ctx.Done():
		return fmt.Errorf("no answer in time: %w", ctx.Err())
	}
}

// attempt connects if necessary, runs the request and closes the connection if it failed.
func (w *Wrapper) attempt(ctx context.Context, request func(context.Context, crypter) error) (err error) {
	defer func() {
		if bug := recover(); bug != nil { // in the library, caused by a service's answer or a stored key
			err = errors.New("the library of this provider panicked on the key or the answer")
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

// session returns the connection, and creates it if necessary.
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
	return nil, errors.New("this server is shutting down")
}

// resolved returns the settings with references to secrets (file:///path, env://NAME) replaced by
// their values. It records the values for redaction.
func (w *Wrapper) resolved() (map[string]string, error) {
	keys := maps.Clone(w.cfg.Keys)
	for name, text := range keys {
		if s, _ := settingOf(w.cfg.Provider, name); !s.refers {
			continue
		}
		if err := wrapping.ParsePaths(&text); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		keys[name] = strings.TrimSpace(text) // files end with a newline
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets = Config{Provider: w.cfg.Provider, Keys: keys}.secrets()
	return keys, nil
}

// keeps reports whether the connection is the current one.
func (w *Wrapper) keeps(s *session) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now == s
}

// drop closes a failed connection.
func (w *Wrapper) drop(s *session) {
	w.mu.Lock()
	if w.now == s {
		w.now = nil
	}
	w.mu.Unlock()
	s.close()
}

// redacted returns an error of a library in a form for logs: one short line without secrets.
func (w *Wrapper) redacted(err error, plain [][]byte) error {
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
