package csisecret_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/csisecret"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// world is a state and a keyring.
type world struct {
	*csisecret.Sealer
	t     *testing.T
	store *state.Store
	ring  *keyring.Ring
	index uint64
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: state.New(slog.New(slog.DiscardHandler)), ring: keyring.New(keyring.Config{})}
	w.Sealer = csisecret.New(csisecret.Config{Store: func() *state.Store { return w.store }, Keyring: w.ring, Within: 50 * time.Millisecond})
	return w
}

// activate creates a root key and makes it the active one.
func (w *world) activate() *rootkey.Key {
	w.t.Helper()
	k, err := w.ring.NewRootKey(w.t.Context(), time.Unix(100, 0))
	if err != nil {
		w.t.Fatal(err)
	}
	w.index++
	if _, err := w.store.UpsertRootKey(w.index, &message.KeyringUpsertWrappedRootKeyRequest{WrappedRootKeys: k}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.ring.Add(w.t.Context(), w.store.Snapshot().RootKey(nil, k.KeyID)); err != nil {
		w.t.Fatal(err)
	}
	return k
}

func TestSealer_RoundTrip(t *testing.T) {
	w := newWorld(t)
	key := w.activate()
	secrets := csi.Secrets{"username": "root", "password": "hunter2hunter2"}
	sealed, err := w.Seal(t.Context(), secrets)
	if err != nil {
		t.Fatal(err)
	}
	if sealed.KeyID != key.KeyID {
		t.Errorf("sealed with key %s, want the active one %s", sealed.KeyID, key.KeyID)
	}
	record, err := codec.Encode(&csi.Volume{ID: "v", Sealed: sealed})
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range secrets {
		if strings.Contains(string(record), value) || strings.Contains(string(record), name) {
			t.Errorf("the record contains the secret %s", name)
		}
	}
	got, err := w.Open(t.Context(), sealed)
	if err != nil || !maps.Equal(got, secrets) {
		t.Errorf("Open() = %d secrets, %v", len(got), err)
	}
	w.activate()
	if got, err = w.Of(t.Context(), &csi.Volume{Sealed: sealed}); err != nil || !maps.Equal(got, secrets) {
		t.Errorf("Of() after a rotation = %d secrets, %v", len(got), err)
	}
	again, err := w.Seal(t.Context(), secrets)
	if err != nil || again.KeyID == key.KeyID {
		t.Errorf("the secrets are sealed with the replaced key: %v", err)
	}
}

func TestSealer_None(t *testing.T) {
	w := newWorld(t) // without a key
	if sealed, err := w.Seal(t.Context(), csi.Secrets{}); sealed != nil || err != nil {
		t.Errorf("Seal() of no secrets = %v, %v, want nil", sealed, err)
	}
	if got, err := w.Of(t.Context(), &csi.Volume{}); got != nil || err != nil {
		t.Errorf("Of() of a volume without secrets = %v, %v, want nil", got, err)
	}
}

// A record of another build has its secrets in plain text.
func TestSealer_OtherBuilds(t *testing.T) {
	w := newWorld(t)
	v := &csi.Volume{Secrets: csi.Secrets{"a": "b"}}
	got, err := w.Of(t.Context(), v)
	if err != nil || got["a"] != "b" {
		t.Fatalf("Of() = %v, %v", got, err)
	}
	got["a"] = "changed"
	if v.Secrets["a"] != "b" {
		t.Error("Of() returns the map of the record")
	}
}

func TestCurrent(t *testing.T) {
	for name, c := range map[string]struct {
		v    csi.Volume
		want bool
	}{
		"no secrets":     {csi.Volume{}, true},
		"plain":          {csi.Volume{Secrets: csi.Secrets{"a": "b"}}, false},
		"active key":     {csi.Volume{Sealed: &csi.Sealed{KeyID: "k"}}, true},
		"another key":    {csi.Volume{Sealed: &csi.Sealed{KeyID: "old"}}, false},
		"plain and both": {csi.Volume{Secrets: csi.Secrets{"a": "b"}, Sealed: &csi.Sealed{KeyID: "k"}}, false},
	} {
		if got := csisecret.Current(&c.v, "k"); got != c.want {
			t.Errorf("%s: Current() = %t, want %t", name, got, c.want)
		}
	}
}

// Errors do not contain secrets or what was decrypted.
func TestSealer_Errors(t *testing.T) {
	const secret = "hunter2hunter2"
	w := newWorld(t)
	if _, err := w.Seal(t.Context(), csi.Secrets{"a": secret}); err == nil {
		t.Error("secrets were sealed without a key")
	}
	key := w.activate()
	raw := func(text string) *csi.Sealed {
		data, err := w.ring.Encrypt(t.Context(), key.KeyID, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return &csi.Sealed{KeyID: key.KeyID, Data: data}
	}
	for name, sealed := range map[string]*csi.Sealed{
		"malformed":   raw(`{"a": "` + secret),
		"not strings": raw(`{"a": ["` + secret + `"]}`),
		"corrupt":     {KeyID: key.KeyID, Data: []byte(strings.Repeat(secret, 9))},
		"no key":      {KeyID: "none", Data: []byte(secret)},
	} {
		_, err := w.Open(context.Background(), sealed)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: Open() = %v, want an error without the secret", name, err)
		}
	}
}

func TestCheck(t *testing.T) {
	many := csi.Secrets{}
	for i := range 257 {
		many[fmt.Sprint(i)] = ""
	}
	for name, c := range map[string]struct {
		secrets csi.Secrets
		valid   bool
	}{
		"none": {nil, true}, "some": {csi.Secrets{"a": "b"}, true}, "too many": {many, false},
		"too large": {csi.Secrets{"a": strings.Repeat("x", 64<<10)}, false},
	} {
		if err := csisecret.Check(c.secrets); (err == nil) != c.valid {
			t.Errorf("%s: Check() = %v, want valid %t", name, err, c.valid)
		}
	}
}

func TestOverlay(t *testing.T) {
	stored, request := csi.Secrets{"a": "1", "b": "2"}, csi.Secrets{"b": "3"}
	got := csisecret.Overlay(stored, request)
	if !maps.Equal(got, csi.Secrets{"a": "1", "b": "3"}) || stored["b"] != "2" || len(request) != 1 {
		t.Errorf("Overlay() = %v of %v and %v", got, stored, request)
	}
	if csisecret.Overlay(nil, nil) != nil {
		t.Error("Overlay() of nothing is not nil")
	}
}
