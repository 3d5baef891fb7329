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

// identity holds the node's ID, its secret, its key pair and its identity token. The token is written to disk
// before it is used.
type identity struct {
	id, secret string
	key        nodeKey
	intro      string // for the first registration, may be empty
	db         *state.DB
	log        *slog.Logger

	mu         sync.RWMutex
	token      nomad.Token
	registered bool // the servers have the node
	omitToken  bool // the next registration sends no token
	renew      bool // the next heartbeat requests a new token
}

// loadIdentity reads the identity of the previous agent, or creates a new one.
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
	key, err := loadKey(dir, id)
	if err != nil {
		return nil, err
	}
	renew, err := db.RenewalAsked()
	if err != nil {
		return nil, err
	}
	return &identity{
		id: id, secret: secret, key: key, intro: intro, db: db, log: log, renew: renew,
		token: nomad.NewToken(token.Reveal(), keyID(token.Reveal())), registered: registered,
	}, nil
}

// ErrNoID means that the node ID or the secret ID of a registered node is missing.
var ErrNoID = errors.New("the node has lost its ID")

// halfLost returns an error if exactly one of the two files of a registered node is missing. A
// new node ID would be another node with this node's allocations; the servers would refuse a
// new secret ID. If both files are missing, the directory is that of a new node, as on a cloned
// machine.
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

// persistentID returns the UUID in a file of mode 0600. It creates the file if it does not
// exist.
func persistentID(path string) (string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		id := nomad.NewID()
		return id, writeAtomic(path, []byte(id))
	}
	if err != nil {
		return "", fmt.Errorf("read node identity: %w", err)
	}
	id := strings.ToLower(strings.TrimSpace(string(b)))
	if !nomad.IsUUID(id) {
		return "", fmt.Errorf("read node identity: %s does not contain a UUID", path)
	}
	return id, nil
}

// writeAtomic writes a file of mode 0600 atomically.
func writeAtomic(path string, data []byte) error {
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
		os.Remove(f.Name())
		return fmt.Errorf("write node identity: %w", err)
	}
	if err := safefs.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write node identity: %w", err)
	}
	return nil
}

// auth returns the value for AuthToken: the token if there is one, else the secret.
func (i *identity) auth() string {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if !i.token.IsZero() {
		return i.token.Reveal()
	}
	return i.secret
}

// registerAuth returns the value for AuthToken of a registration. When the servers refuse one
// credential, the next is used:
//
//	the servers' token ──refused──▶ introduction ──refused, and it had a token──▶ none
//	                                     ▲                                        │
//	                                     └────────────────refused─────────────────┘
//
// Servers whose state was restored may lack the key that signed the token, or may have recorded
// the introduction token as used. They still recognise the node by its secret. A node that was
// never registered keeps sending its introduction token, since it may be accepted later.
func (i *identity) registerAuth() string {
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

// jwt returns the token, or the zero Token if there is none.
func (i *identity) jwt() nomad.Token {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.token
}

// accept stores the token of a response, then uses it. If raw is nil or storing fails, the old
// token stays.
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
		i.log.Error("store the node identity, the old one stays in use", "err", err)
		return
	}
	metrics.IncrCounter(renewed, 1)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.token, i.renew = t, false
	i.log.Debug("node identity", "token", t)
}

// markRegistered records that the servers have the node, so that a restarted agent sends the
// node's own token.
func (i *identity) markRegistered() error { return i.setRegistered(true) }

// markRefused records that the servers refused the node's credential.
func (i *identity) markRefused() error {
	i.mu.Lock()
	registered := i.registered
	i.omitToken = !registered && !i.omitToken && i.intro != "" && !i.token.IsZero()
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

// askRenewal makes heartbeats request a new token until one arrives. The request survives a
// restart of the agent.
func (i *identity) askRenewal() error {
	if err := i.db.AskRenewal(); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.renew = true
	return nil
}

// wantsRenewal reports whether a new token was requested.
func (i *identity) wantsRenewal() bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.renew
}
