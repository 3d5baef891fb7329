package keyring_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

// service is a wrapper backed by an external service that may be unavailable or wrong.
type service struct {
	keyring.AEAD
	id                 string
	unreachable, wrong *atomic.Bool
}

func newService(id string) service {
	return service{id: id, unreachable: &atomic.Bool{}, wrong: &atomic.Bool{}}
}

func (s service) Provider() string { return "transit" }
func (s service) ID() string       { return s.id }

func (s service) Wrap(ctx context.Context, keyID string, dek, rsa []byte) (*rootkey.Wrapped, error) {
	if s.unreachable.Load() {
		return nil, errors.New("service is unavailable")
	}
	w, err := s.AEAD.Wrap(ctx, keyID, dek, rsa)
	if err == nil {
		w.Provider, w.ProviderID = s.Provider(), s.ID()
	}
	return w, err
}

func (s service) Unwrap(ctx context.Context, w *rootkey.Wrapped) (dek, rsa []byte, err error) {
	if s.unreachable.Load() {
		return nil, nil, errors.New("service is unavailable")
	}
	dek, rsa, err = s.AEAD.Unwrap(ctx, w)
	if s.wrong.Load() && err == nil {
		dek[0] ^= 1
	}
	return dek, rsa, err
}

// A closed key verifies, and signs after a service has opened it.
func TestClosedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := newService("transit.far")
		r := keyring.New(keyring.Config{Wrappers: []keyring.Wrapper{far}})
		k := newKey(t, r)
		far.unreachable.Store(true)
		if err := r.Add(t.Context(), k); err == nil || !strings.Contains(err.Error(), "transit.far: service is unavailable") {
			t.Errorf("Add() = %v", err)
		}
		if _, ok := r.PublicKey(k.KeyID); !ok || len(r.PublicKeys()) != 1 {
			t.Error("a closed key does not verify")
		}
		if open, closed := r.Count(); open != 0 || closed != 1 || !slices.Equal(r.IDs(), []string{k.KeyID}) {
			t.Errorf("Count() = %d, %d", open, closed)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.ActiveSigner(ctx); !errors.Is(err, keyring.ErrNoKey) || !errors.Is(err, keyring.ErrClosed) ||
			!strings.Contains(err.Error(), "transit.far") {
			t.Errorf("ActiveSigner() = %v", err)
		}
		if err := r.Settle(t.Context(), []*rootkey.Key{k}); err != nil {
			t.Errorf("Settle() = %v", err)
		}
		got := make(chan error)
		go func() {
			_, err := r.ActiveSigner(t.Context())
			got <- err
		}()
		synctest.Wait()
		far.wrong.Store(true)
		far.unreachable.Store(false)
		if err := r.Add(t.Context(), k); err == nil || !strings.Contains(err.Error(), "does not match the public key") {
			t.Errorf("Add() with a wrong answer = %v", err)
		}
		far.wrong.Store(false)
		add(t, r, k)
		if err := <-got; err != nil || r.Closed(k.KeyID) != "" {
			t.Errorf("ActiveSigner() = %v", err)
		}
	})
}

// The state of a closed key follows its record.
func TestStateOfClosedKey(t *testing.T) {
	far := newService("transit")
	r := keyring.New(keyring.Config{Wrappers: []keyring.Wrapper{far}, Openers: []keyring.Wrapper{keyring.AEAD{}}})
	one, two := newKey(t, r), newKey(t, keyring.New(keyring.Config{}))
	far.unreachable.Store(true)
	if r.Update(t.Context(), one) || r.Add(t.Context(), one) == nil {
		t.Error("the key is open")
	}
	one.State = rootkey.Inactive
	if r.Update(t.Context(), one) {
		t.Error("Update() opened it")
	}
	add(t, r, two)
	if k, err := r.ActiveSigner(t.Context()); err != nil || k.ID != two.KeyID {
		t.Errorf("ActiveSigner() = %v, %v", k, err)
	}
	r.Remove(one.KeyID)
	if _, closed := r.Count(); closed != 0 {
		t.Error("a removed key is closed")
	}
}

// Each active wrapper wraps a new key, and any of them can open it. If one of them fails, no key is
// made.
func TestSeveralWrappers(t *testing.T) {
	a, b, old := newService("transit.a"), newService("transit.b"), newService("transit.old")
	r := keyring.New(keyring.Config{Wrappers: []keyring.Wrapper{a, b, keyring.AEAD{}}, Openers: []keyring.Wrapper{old}})
	k := newKey(t, r)
	if got := fmt.Sprint(k.WrappedBy()); got != "[transit.a transit.b aead]" {
		t.Errorf("wrapped by %s", got)
	}
	services := keyring.New(keyring.Config{Wrappers: []keyring.Wrapper{a, b}, Openers: []keyring.Wrapper{old}})
	k = newKey(t, services)
	a.unreachable.Store(true)
	if _, err := services.NewRootKey(t.Context(), time.Now()); err == nil ||
		!strings.Contains(err.Error(), "by transit.a: service is unavailable") {
		t.Errorf("NewRootKey() = %v", err)
	}
	add(t, services, k) // b opens it
	a.unreachable.Store(false)
	b.wrong.Store(true)
	if _, err := services.NewRSAKey(t.Context(), time.Now()); err == nil || !strings.Contains(err.Error(), "transit.b: unwrap again") {
		t.Errorf("NewRSAKey() = %v", err)
	}
	alone := keyring.New(keyring.Config{Wrappers: []keyring.Wrapper{old}})
	if err := alone.Add(t.Context(), k); !errors.Is(err, keyring.ErrNoWrapper) || !strings.Contains(err.Error(), "transit.a, transit.b") {
		t.Errorf("Add() without its wrappers = %v", err)
	}
	first := keyring.New(keyring.Config{Wrappers: []keyring.Wrapper{a}})
	a.unreachable.Store(true)
	_, failed := first.NewRootKey(t.Context(), time.Now())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := first.ActiveSigner(ctx); failed == nil || err == nil || !strings.Contains(err.Error(), "transit.a") {
		t.Errorf("ActiveSigner() before the first key = %v", err)
	}
}

// Records come from Raft, and Raft restores snapshots. No record may make a server panic, and an
// invalid public key verifies nothing.
func TestHostileRecords(t *testing.T) {
	r := keyring.New(keyring.Config{Openers: []keyring.Wrapper{newService("transit")}})
	good := newKey(t, r)
	for name, spoil := range map[string]func(*rootkey.Key){
		"public half empty DER": func(k *rootkey.Key) { k.PublicKey = []byte{0x30, 0} },
		"public half huge":      func(k *rootkey.Key) { k.PublicKey = make([]byte, 1<<20) },
		"tiny RSA public half":  func(k *rootkey.Key) { k.PublicKey = []byte{0x30, 6, 2, 1, 15, 2, 1, 3} },
		"many wrappings":        func(k *rootkey.Key) { k.WrappedKeys = make([]*rootkey.Wrapped, 1<<16) },
		"unknown wrappers":      func(k *rootkey.Key) { k.WrappedKeys = []*rootkey.Wrapped{{}, nil, {Provider: "transit"}} },
		"wrapping by transit":   func(k *rootkey.Key) { k.WrappedKeys[0].Provider = "transit"; k.WrappedKeys[0].KeyEncryptionKey = nil },
		"all nil":               func(k *rootkey.Key) { *k = rootkey.Key{KeyID: k.KeyID} },
	} {
		t.Run(name, func(t *testing.T) {
			k := *good
			k.KeyID = nomad.NewID()
			wrapping := *good.WrappedKeys[0]
			k.WrappedKeys = []*rootkey.Wrapped{&wrapping}
			spoil(&k)
			r.Update(t.Context(), &k)
			if err := r.Add(t.Context(), &k); err == nil {
				t.Error("Add() succeeds")
			}
			if _, ok := r.PublicKey(k.KeyID); ok != bytes.Equal(k.PublicKey, good.PublicKey) {
				t.Errorf("it verifies: %v", ok)
			}
			for _, p := range r.PublicKeys() {
				if p.KeyID == k.KeyID && !bytes.Equal(p.PublicKey, good.PublicKey) {
					t.Errorf("verifiers see %+v", p)
				}
			}
		})
	}
	add(t, r, good)
}
