package keyring_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

func newKey(t testing.TB, r *keyring.Ring) *rootkey.Key {
	t.Helper()
	k, err := r.NewRootKey(t.Context(), time.Unix(100, 0))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func add(t testing.TB, r *keyring.Ring, k *rootkey.Key) {
	t.Helper()
	if err := r.Add(t.Context(), k); err != nil {
		t.Fatalf("Add() = %v", err)
	}
}

// openByHand unwraps a blob as Nomad 2.0 stores it.
func openByHand(t *testing.T, kek, blob []byte) []byte {
	t.Helper()
	block, err := aes.NewCipher(kek)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	text, err := gcm.Open(nil, blob[:12], blob[12:], nil)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func sealByHand(t *testing.T, kek, text []byte) []byte {
	t.Helper()
	block, err := aes.NewCipher(kek)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	nonce := make([]byte, 12)
	rand.Read(nonce)
	return gcm.Seal(nonce, nonce, text, nil)
}

func TestWrappedForm(t *testing.T) {
	r := keyring.New(keyring.Config{})
	k := newKey(t, r)
	if !nomad.IsUUID(k.KeyID) || k.State != rootkey.Active || k.Algorithm != "aes256-gcm" || k.CreateTime != 100e9 {
		t.Errorf("NewRootKey() = %+v", k)
	}
	raw, err := codec.Encode(k) // as it goes through Raft
	if err != nil {
		t.Fatal(err)
	}
	var back rootkey.Key
	if err := codec.Decode(raw, &back); err != nil {
		t.Fatal(err)
	}
	add(t, r, &back)
	w := k.WrappedKeys[0]
	if w.Provider != "aead" || w.ProviderID != "aead" || w.WrappedDataEncryptionKey.KeyInfo.KeyId != k.KeyID ||
		len(w.WrappedRSAKey.Ciphertext) != 0 {
		t.Errorf("wrapped key is %+v", w)
	}
	seed := openByHand(t, w.KeyEncryptionKey, w.WrappedDataEncryptionKey.Ciphertext)
	want := ed25519.NewKeyFromSeed(seed).Public()
	got, ok := r.PublicKey(k.KeyID)
	if !ok || !want.(ed25519.PublicKey).Equal(got.Crypto()) {
		t.Error("the key does not have the data encryption key as its seed")
	}
	if shown := fmt.Sprintf("%v", r.PublicKeys()); strings.Contains(shown, hex.EncodeToString(seed)) {
		t.Errorf("ring prints %s", shown)
	}
}

func TestRSAPart(t *testing.T) {
	r := keyring.New(keyring.Config{})
	k := newKey(t, r)
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	w := k.WrappedKeys[0]
	k.PublicKey = nil // as in keys of other servers
	w.WrappedRSAKey = &rootkey.BlobInfo{Ciphertext: sealByHand(t, w.KeyEncryptionKey, x509.MarshalPKCS1PrivateKey(private))}
	add(t, r, k)
	signer, err := r.ActiveSigner(t.Context())
	if err != nil || signer.Alg != "RS256" {
		t.Fatalf("ActiveSigner() = %v, %v", signer.Alg, err)
	}
	public, err := x509.ParsePKCS1PublicKey(r.PublicKeys()[0].PublicKey)
	if err != nil || !public.Equal(&private.PublicKey) {
		t.Errorf("PublicKeys() does not hold the PKCS #1 form: %v", err)
	}
}

func TestStates(t *testing.T) {
	r := keyring.New(keyring.Config{})
	one, two := newKey(t, r), newKey(t, r)
	one.CreateTime, two.CreateTime = 1, 2
	two.State = rootkey.Prepublished
	add(t, r, two)
	add(t, r, one)
	expect := func(active string, published ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		k, err := r.ActiveSigner(ctx)
		if active == "" && !errors.Is(err, keyring.ErrNoKey) || active != "" && k.ID != active {
			t.Errorf("ActiveSigner() = %q, %v, want %q", k.ID, err, active)
		}
		var ids []string
		for _, k := range r.PublicKeys() {
			ids = append(ids, k.KeyID)
		}
		if fmt.Sprint(ids) != fmt.Sprint(published) {
			t.Errorf("PublicKeys() = %v, want %v", ids, published)
		}
	}
	expect(one.KeyID, one.KeyID, two.KeyID)
	retired, active := *one, *two
	retired.State, active.State = rootkey.Inactive, rootkey.Active
	add(t, r, &retired)
	expect("", one.KeyID, two.KeyID)
	add(t, r, &active)
	expect(two.KeyID, one.KeyID, two.KeyID)
	retired.State = rootkey.Deprecated
	add(t, r, &retired)
	expect(two.KeyID, two.KeyID)
	if _, ok := r.PublicKey(one.KeyID); !ok {
		t.Error("a deprecated key no longer verifies")
	}
	r.Remove(one.KeyID)
	if _, ok := r.PublicKey(one.KeyID); ok {
		t.Error("a removed key still verifies")
	}
	r.Remove(two.KeyID)
	expect("")
}

func TestMaterialIsNotReplaced(t *testing.T) {
	r := keyring.New(keyring.Config{})
	one, other := newKey(t, r), newKey(t, r)
	add(t, r, one)
	before, _ := r.PublicKey(one.KeyID)
	swapped := *one
	swapped.WrappedKeys = other.WrappedKeys
	add(t, r, &swapped)
	if after, _ := r.PublicKey(one.KeyID); !after.Crypto().(ed25519.PublicKey).Equal(before.Crypto()) {
		t.Error("the material of the key was replaced")
	}
}

func TestBadWrapping(t *testing.T) {
	r := keyring.New(keyring.Config{})
	for name, spoil := range map[string]func(*rootkey.Key){
		"no wrapping":       func(k *rootkey.Key) { k.WrappedKeys = nil },
		"nil wrapping":      func(k *rootkey.Key) { k.WrappedKeys = []*rootkey.Wrapped{nil} },
		"other provider":    func(k *rootkey.Key) { k.WrappedKeys[0].Provider = "awskms" },
		"no blob":           func(k *rootkey.Key) { k.WrappedKeys[0].WrappedDataEncryptionKey = nil },
		"empty blob":        func(k *rootkey.Key) { k.WrappedKeys[0].WrappedDataEncryptionKey = &rootkey.BlobInfo{} },
		"blob altered":      func(k *rootkey.Key) { k.WrappedKeys[0].WrappedDataEncryptionKey.Ciphertext[20] ^= 1 },
		"short wrapping":    func(k *rootkey.Key) { k.WrappedKeys[0].KeyEncryptionKey = []byte("x") },
		"other algorithm":   func(k *rootkey.Key) { k.Algorithm = "rot13" },
		"RSA part is wrong": func(k *rootkey.Key) { k.WrappedKeys[0].WrappedRSAKey.Ciphertext = []byte("x") },
	} {
		t.Run(name, func(t *testing.T) {
			k := newKey(t, r)
			spoil(k)
			if err := r.Add(t.Context(), k); err == nil {
				t.Error("Add() succeeds")
			}
			if _, err := r.Signer(k.KeyID); !errors.Is(err, keyring.ErrClosed) || r.Closed(k.KeyID) == "" {
				t.Errorf("Signer() = %v", err)
			}
		})
	}
	k := newKey(t, r)
	k.WrappedKeys = append([]*rootkey.Wrapped{{Provider: "transit"}}, k.WrappedKeys...)
	add(t, r, k) // the second one opens
}

func TestWaitForKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := keyring.New(keyring.Config{})
		got := make(chan string)
		for range 3 {
			go func() {
				k, err := r.ActiveSigner(t.Context())
				got <- fmt.Sprint(k.ID, err)
			}()
		}
		synctest.Wait()
		k := newKey(t, r)
		add(t, r, k)
		for range 3 {
			if id := <-got; id != k.KeyID+"<nil>" {
				t.Errorf("ActiveSigner() = %s", id)
			}
		}
	})
}
