package svid

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/spiffe"
)

// DefaultOverlap is the default time for which an authority is in the bundle before it signs.
const DefaultOverlap = 5 * time.Minute

// RefreshHint is the time after which verifiers should read the bundle again.
const RefreshHint = DefaultOverlap / 2

// ErrNoAuthority means that this server has no open root key.
var ErrNoAuthority = errors.New("no root key is open, so no SVID can be signed")

// Config configures an Issuer.
type Config struct {
	Ring *keyring.Ring
	// TrustDomain is the name of the trust domain; "" disables SVIDs.
	TrustDomain string
	// DNS are the suffixes of the DNS names that X.509-SVIDs may have. Default: none.
	DNS []string
	// Overlap is the time for which an authority is in the bundle before it signs. Default:
	// DefaultOverlap.
	Overlap time.Duration
}

// Issuer signs SVIDs. It is safe for concurrent use.
type Issuer struct {
	cfg Config

	mu    sync.Mutex
	known map[string]*authority // by ID of the root key
}

// New returns an issuer. It checks the names in the configuration.
func New(cfg Config) (*Issuer, error) {
	if cfg.Overlap <= 0 {
		cfg.Overlap = DefaultOverlap
	}
	if cfg.TrustDomain != "" {
		if err := spiffe.CheckTrustDomain(cfg.TrustDomain); err != nil {
			return nil, err
		}
	} else if len(cfg.DNS) > 0 {
		return nil, errors.New("dns has suffixes, but trust_domain is not set: set it")
	}
	return &Issuer{cfg: cfg, known: map[string]*authority{}}, nil
}

// TrustDomain returns the name of the trust domain, or "" if SVIDs are disabled.
func (i *Issuer) TrustDomain() string { return i.cfg.TrustDomain }

// DNS returns the suffixes of the DNS names that X.509-SVIDs may have.
func (i *Issuer) DNS() []string { return i.cfg.DNS }

// Authorities returns the public keys of the trust domain, oldest first. Private keys never leave the
// package.
func (i *Issuer) Authorities() ([]*spiffe.Authority, error) {
	keys := i.cfg.Ring.OpenKeys()
	if len(keys) == 0 {
		return nil, ErrNoAuthority
	}
	out := make([]*spiffe.Authority, 0, len(keys))
	for _, k := range keys {
		a, err := i.authority(k)
		if err != nil {
			return nil, err
		}
		public := a.public
		out = append(out, &public)
	}
	return out, nil
}

// signer returns the authority that signs now.
func (i *Issuer) signer(now time.Time) (*authority, error) {
	var chosen *keyring.OpenKey
	for _, k := range i.cfg.Ring.OpenKeys() { // oldest first
		if k.State == rootkey.Prepublished {
			continue
		}
		if chosen == nil || now.Sub(k.Created) >= i.cfg.Overlap {
			chosen = &k
		}
	}
	if chosen == nil {
		return nil, ErrNoAuthority
	}
	a, err := i.authority(*chosen)
	if err != nil {
		return nil, err
	}
	if !now.Before(a.ca.NotAfter) {
		return nil, fmt.Errorf("the CA of root key %s has expired: rotate the root keys", chosen.ID)
	}
	return a, nil
}

// authority returns the authority of a root key. It derives each one once.
func (i *Issuer) authority(k keyring.OpenKey) (*authority, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if a := i.known[k.ID]; a != nil {
		return a, nil
	}
	a, err := newAuthority(i.cfg.Ring, k, i.cfg.TrustDomain)
	if err != nil {
		return nil, err
	}
	for id := range i.known {
		if !i.cfg.Ring.Has(id) {
			delete(i.known, id)
		}
	}
	i.known[k.ID] = a
	return a, nil
}
