// Package nodeid is the identity of a node: its ID, its secret ID, its key pair and its identity token. All of them are on
// disk before they are used.
//
//	client-id, secret-id   a UUID each, mode 0600
//	node-key               PKCS #8 in PEM, mode 0600, with the node's ID in a header
//	state.db               the token, whether the servers have the node, whether a renewal is requested
//
// The servers issue the token when the node registers, and renew it in answers of heartbeats:
//
//	none ──Register──▶ issued ──a third of the lifetime remains, or AskRenewal──▶ issued
//	                     └──refused──▶ introduction ──refused──▶ secret only
//
// The package never prints the secret, the token or the private key. Its one goroutine is Identity.Measure.
package nodeid

import (
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
)

// Identity holds the node's ID, its secret, its key pair and its identity token. The token is written to disk
// before it is used.
type Identity struct {
	ID     string
	secret string
	key    key
	intro  string // for the first registration, may be empty
	db     *state.DB
	log    *slog.Logger

	mu         sync.RWMutex
	token      idtoken.Token
	registered bool // the servers have the node
	omitToken  bool // the next registration sends no token
	renew      bool // the next heartbeat requests a new token
}

// Load reads the identity of the previous agent from dir and db, or creates a new one. intro is the introduction token of
// the first registration, or "".
func Load(dir, intro string, db *state.DB, log *slog.Logger) (*Identity, error) {
	token, err := db.NodeIdentity()
	if err != nil {
		return nil, err
	}
	reg, err := db.NodeRegistration()
	if err != nil {
		return nil, err
	}
	registered := reg != nil && reg.HasRegistered
	if registered || !token.IsZero() {
		if err := halfLost(dir); err != nil {
			return nil, err
		}
	}
	id, err := persistentID(filepath.Join(dir, "client-id"))
	if err != nil {
		return nil, err
	}
	secret, err := persistentID(filepath.Join(dir, "secret-id"))
	if err != nil {
		return nil, err
	}
	key, err := loadKey(dir, id)
	if err != nil {
		return nil, err
	}
	renew, err := db.RenewalAsked()
	if err != nil {
		return nil, err
	}
	return &Identity{
		ID: id, secret: secret, key: key, intro: intro, db: db, log: log, renew: renew,
		token: idtoken.New(token.Reveal(), keyID(token.Reveal())), registered: registered,
	}, nil
}

// Secret returns the secret ID of the node.
func (i *Identity) Secret() string { return i.secret }

// Auth returns the value for AuthToken: the token if there is one, else the secret.
func (i *Identity) Auth() string {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if !i.token.IsZero() {
		return i.token.Reveal()
	}
	return i.secret
}

// RegisterAuth returns the value for AuthToken of a registration. When the servers refuse one
// credential, the next is used:
//
//	the servers' token ──refused──▶ introduction ──refused, and it had a token──▶ none
//	                                     ▲                                        │
//	                                     └────────────────refused─────────────────┘
//
// Servers whose state was restored may lack the key that signed the token, or may have recorded
// the introduction token as used. They still recognise the node by its secret. A node that was
// never registered keeps sending its introduction token, since it may be accepted later.
func (i *Identity) RegisterAuth() string {
	i.mu.RLock()
	defer i.mu.RUnlock()
	switch {
	case !i.registered && i.omitToken:
		return ""
	case !i.registered:
		return i.intro
	case !i.token.IsZero():
		return i.token.Reveal()
	}
	return i.secret
}

// JWT returns the token, or the zero Token if there is none.
func (i *Identity) JWT() idtoken.Token {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.token
}

// Accept stores the token of a response, then uses it. If raw is nil or storing fails, the old
// token stays.
func (i *Identity) Accept(raw *string) {
	if raw == nil || *raw == "" {
		if i.overdue(time.Now()) {
			metrics.IncrCounter(renewalFailed, 1)
		}
		return
	}
	t := idtoken.New(*raw, keyID(*raw))
	if err := i.db.PutNodeIdentity(t); err != nil {
		metrics.IncrCounter(renewalFailed, 1)
		i.log.Error("store the node identity, the old one stays in use", "err", err)
		return
	}
	metrics.IncrCounter(renewed, 1)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.token, i.renew = t, false
	i.log.Debug("node identity", "token", t)
}

// MarkRegistered records that the servers have the node, so that a restarted agent sends the
// node's own token.
func (i *Identity) MarkRegistered() error { return i.setRegistered(true) }

// MarkRefused records that the servers refused the node's credential.
func (i *Identity) MarkRefused() error {
	i.mu.Lock()
	registered := i.registered
	i.omitToken = !registered && !i.omitToken && i.intro != "" && !i.token.IsZero()
	i.mu.Unlock()
	if !registered {
		return nil
	}
	return i.setRegistered(false)
}

func (i *Identity) setRegistered(yes bool) error {
	i.mu.RLock()
	same := i.registered == yes
	i.mu.RUnlock()
	if same {
		return nil
	}
	if err := i.db.PutNodeRegistration(&nomad.NodeRegistration{HasRegistered: yes}); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.registered = yes
	return nil
}

// AskRenewal makes heartbeats request a new token until one arrives. The request survives a
// restart of the agent.
func (i *Identity) AskRenewal() error {
	if err := i.db.AskRenewal(); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.renew = true
	return nil
}

// WantsRenewal reports whether a new token was requested.
func (i *Identity) WantsRenewal() bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.renew
}
