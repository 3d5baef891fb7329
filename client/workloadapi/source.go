package workloadapi

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/trustbundle"
)

// Task identifies a task of the node and its requests to the servers.
type Task struct {
	Alloc  *nomad.Allocation
	Task   *nomad.Task
	Region string
	RPC    message.Caller
	Log    *slog.Logger
}

// query returns the options of a request about the task. The servers may not have the allocation yet.
func (t *Task) query() message.QueryOptions {
	return message.QueryOptions{Region: t.Region, Namespace: t.Alloc.Namespace, AllowStale: true,
		MinQueryIndex: max(t.Alloc.CreateIndex, 1) - 1}
}

// X509 is an X.509-SVID with its private key. It prints as its SPIFFE ID.
type X509 struct {
	id    string
	chain []byte // DER, concatenated
	key   []byte // PKCS #8
	leaf  *x509.Certificate
}

// String returns the SPIFFE ID.
func (x *X509) String() string { return x.id }

// Format prints the SPIFFE ID, whatever the verb.
func (x *X509) Format(f fmt.State, _ rune) { fmt.Fprint(f, x.id) }

// LogValue implements slog.LogValuer like String.
func (x *X509) LogValue() slog.Value { return slog.StringValue(x.id) }

// Source keeps the X.509-SVID of a task fresh. It is safe for concurrent use.
//
//	fetching ──signed──▶ held ──half of the lifetime, or no CA of the bundle issued it──▶ fetching
//	   └──error: back off, the old one stays──▶ fetching
type Source struct {
	task    Task
	bundles *Bundles

	mu      sync.Mutex
	current *X509
	changed chan struct{} // closed when held changes
}

// NewSource returns a Source without an SVID.
func NewSource(t Task, bundles *Bundles) *Source {
	return &Source{task: t, bundles: bundles, changed: make(chan struct{})}
}

// Current returns the SVID, nil before the first, and a channel that is closed when it changes.
func (s *Source) Current() (*X509, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current, s.changed
}

// Run keeps the SVID fresh until ctx ends.
func (s *Source) Run(ctx context.Context) {
	again := backoff.Backoff{Min: retryFirst, Max: retryLast}
	for {
		if err := s.fetch(ctx); err != nil {
			if ctx.Err() != nil {
				return
			}
			s.task.Log.Warn("fetch X.509-SVID: trying again", "err", err)
			if pause(ctx, again.Next()) != nil {
				return
			}
			continue
		}
		again.Reset()
		if !s.hold(ctx) {
			return
		}
	}
}

// hold waits until the SVID must be renewed. It reports whether ctx still runs.
func (s *Source) hold(ctx context.Context) bool {
	current, _ := s.Current()
	half := time.NewTimer(renewal(current.leaf, time.Now()))
	defer half.Stop()
	for {
		bundle, changed := s.bundles.Current()
		if bundle != nil && !bundle.Issued(current.leaf) {
			return pause(ctx, 2*time.Second) == nil // its root key was removed, or the bundle is old
		}
		select {
		case <-ctx.Done():
			return false
		case <-half.C:
			return true
		case <-changed:
		}
	}
}

// renewal returns the time until half of the lifetime has passed, less up to a tenth at random.
func renewal(leaf *x509.Certificate, now time.Time) time.Duration {
	half := leaf.NotAfter.Sub(now) / 2
	if half <= 0 {
		return 0
	}
	return half - mathrand.N(half/10+1)
}

// fetch makes a key pair and has the servers sign its certificate.
func (s *Source) fetch(ctx context.Context) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key pair: %w", err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return fmt.Errorf("make a certificate request: %w", err)
	}
	req := &message.SpiffeX509Request{AllocID: s.task.Alloc.ID, Task: s.task.Task.Name, CSR: csr, QueryOptions: s.task.query()}
	var resp message.SpiffeX509Response
	if err := s.task.RPC.Call(ctx, "Spiffe.SignX509", req, &resp); err != nil {
		return err
	}
	next, err := newX509(&resp, key)
	if err != nil {
		return fmt.Errorf("read the reply of the servers: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = next
	close(s.changed)
	s.changed = make(chan struct{})
	s.task.Log.Debug("X.509-SVID", "id", next, "expires", next.leaf.NotAfter)
	return nil
}

// newX509 checks a reply and joins it with the private key.
func newX509(resp *message.SpiffeX509Response, key *ecdsa.PrivateKey) (*X509, error) {
	if len(resp.Certificates) == 0 {
		return nil, fmt.Errorf("it has no certificate")
	}
	x := &X509{id: resp.ID}
	var err error
	if x.leaf, err = x509.ParseCertificate(resp.Certificates[0]); err != nil {
		return nil, err
	}
	if !key.PublicKey.Equal(x.leaf.PublicKey) {
		return nil, fmt.Errorf("the certificate has another key")
	}
	for _, der := range resp.Certificates {
		x.chain = append(x.chain, der...)
	}
	x.key, err = x509.MarshalPKCS8PrivateKey(key)
	return x, err
}

// issued waits until both an SVID and a bundle exist, and the bundle has the CA of the SVID.
func (s *Source) issued(ctx context.Context) (*X509, *trustbundle.Bundle, <-chan struct{}, <-chan struct{}, error) {
	for {
		x, renewed := s.Current()
		b, rotated := s.bundles.Current()
		if x != nil && b != nil && b.Issued(x.leaf) && time.Now().Before(x.leaf.NotAfter) {
			return x, b, renewed, rotated, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, nil, nil, ctx.Err()
		case <-renewed:
		case <-rotated:
		}
	}
}
