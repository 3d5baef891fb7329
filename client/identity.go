package client

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad"
)

// identity is who the node is: its ID, its secret, and the token that the servers
// gave it. The token is on disk before it is used.
type identity struct {
	id, secret string
	intro      string // for the first registration, may be empty
	db         *state.DB
	log        *slog.Logger

	mu         sync.RWMutex
	token      nomad.Token
	registered bool // the servers know the node
	bare       bool // the next registration shows nothing but the secret in the node
	renew      bool // asked for a new token with the next heartbeat
}

// loadIdentity reads what the last agent left, or makes a node that never was.
func loadIdentity(dir, intro string, db *state.DB, log *slog.Logger) (*identity, error) {
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
	renew, err := db.RenewalAsked()
	if err != nil {
		return nil, err
	}
	return &identity{
		id: id, secret: secret, intro: intro, db: db, log: log, renew: renew,
		token: nomad.NewToken(token.Reveal(), keyID(token.Reveal())), registered: registered,
	}, nil
}

// ErrNoID means that the node ID or the secret ID of a registered node is missing.
var ErrNoID = errors.New("the node has lost its ID")

// halfLost refuses a registered node of which one of the two files is missing: a new ID would be
// another node with the allocations of this one, a new secret ID would be refused by the servers.
// Without both files the directory is that of a new node: so it is with a copied machine.
func halfLost(dir string) error {
	names := [...]string{"client-id", "secret-id"}
	var lost []string
	for _, name := range names {
		_, err := os.Lstat(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			lost = append(lost, filepath.Join(dir, name))
		case err != nil:
			return fmt.Errorf("read node identity: %w", err)
		}
	}
	if len(lost) != 1 {
		return nil
	}
	return fmt.Errorf("%w: %s is missing, but %s holds the state of a registered node: restore the file from a backup, "+
		"or remove %s and %s to join as a new node", ErrNoID, lost[0], dir, names[0], names[1])
}

// persistentID returns the UUID in a file of mode 0600, made when there is none.
func persistentID(path string) (string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		id := nomad.NewID()
		return id, writeWhole(path, []byte(id))
	}
	if err != nil {
		return "", fmt.Errorf("read node identity: %w", err)
	}
	id := strings.ToLower(strings.TrimSpace(string(b)))
	if !nomad.IsUUID(id) {
		return "", fmt.Errorf("read node identity: %s holds no UUID", path)
	}
	return id, nil
}

// writeWhole puts a file of mode 0600 in place, all or nothing.
func writeWhole(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // made with mode 0600
	if err != nil {
		return fmt.Errorf("write node identity: %w", err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name()) // what is left of the attempt
		return fmt.Errorf("write node identity: %w", err)
	}
	if err := safefs.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write node identity: %w", err)
	}
	return nil
}

// auth is what goes into AuthToken: the token if there is one, else the secret.
func (i *identity) auth() string {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if !i.token.IsZero() {
		return i.token.Reveal()
	}
	return i.secret
}

// registerAuth is what goes into AuthToken of a registration. Each proof that is
// refused makes way for the next:
//
//	the servers' token ──refused──▶ introduction ──refused, and it had a token──▶ none
//	                                     ▲                                        │
//	                                     └────────────────refused─────────────────┘
//
// Servers whose state was restored may lack the key that signed the token, or have
// seen the introduction used up, and still know the node by its secret. A node that
// never was registered insists on its introduction: it may be accepted later.
func (i *identity) registerAuth() string {
	i.mu.RLock()
	defer i.mu.RUnlock()
	switch {
	case !i.registered && i.bare:
		return ""
	case !i.registered:
		return i.intro
	case !i.token.IsZero():
		return i.token.Reveal()
	}
	return i.secret
}

// jwt returns the token, the zero Token when there is none.
func (i *identity) jwt() nomad.Token {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.token
}

// accept stores and then uses a token of a reply; nil keeps the one there is. When it
// cannot be stored, the old one stays.
func (i *identity) accept(raw *string) {
	if raw == nil || *raw == "" {
		if i.overdue(time.Now()) {
			metrics.IncrCounter(renewalFailed, 1)
		}
		return
	}
	t := nomad.NewToken(*raw, keyID(*raw))
	if err := i.db.PutNodeIdentity(t); err != nil {
		metrics.IncrCounter(renewalFailed, 1)
		i.log.Error("keep the old node identity", "err", err)
		return
	}
	metrics.IncrCounter(renewed, 1)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.token, i.renew = t, false
	i.log.Debug("node identity", "token", t)
}

// known records that the servers know the node, so that a restarted agent shows
// its own token.
func (i *identity) known() error { return i.setRegistered(true) }

// refused takes note that the servers refuse what the node showed.
func (i *identity) refused() error {
	i.mu.Lock()
	registered := i.registered
	i.bare = !registered && !i.bare && i.intro != "" && !i.token.IsZero()
	i.mu.Unlock()
	if !registered {
		return nil
	}
	return i.setRegistered(false)
}

func (i *identity) setRegistered(yes bool) error {
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

// askRenewal makes the next heartbeats, also those of the next agent, ask for a new
// token until one comes.
func (i *identity) askRenewal() error {
	if err := i.db.AskRenewal(); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.renew = true
	return nil
}

// wantsRenewal says whether a new token was asked for.
func (i *identity) wantsRenewal() bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.renew
}
