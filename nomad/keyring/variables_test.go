package keyring_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

// gcmOf returns the cipher for variables of a key, derived from its record.
func gcmOf(t *testing.T, k *rootkey.Key) (gcm cipher.AEAD, dek []byte) {
	t.Helper()
	w := k.WrappedKeys[0]
	dek = openByHand(t, w.KeyEncryptionKey, w.WrappedDataEncryptionKey.Ciphertext)
	block, err := aes.NewCipher(dek)
	if err != nil {
		t.Fatal(err)
	}
	if gcm, err = cipher.NewGCM(block); err != nil {
		t.Fatal(err)
	}
	return gcm, dek
}

func TestVariableFormat(t *testing.T) {
	r := keyring.New(keyring.Config{})
	k := newKey(t, r)
	add(t, r, k)
	gcm, dek := gcmOf(t, k)
	text := []byte(`{"a":"b"}`)
	kid := k.KeyID
	data, err := r.Encrypt(t.Context(), kid, text)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := gcm.Open(nil, data[:12], data[12:], []byte(kid)); err != nil || !bytes.Equal(got, text) {
		t.Errorf("by hand it is %q, %v", got, err)
	}
	if again, _ := r.Encrypt(t.Context(), kid, text); bytes.Equal(again, data) {
		t.Error("the same text is sealed the same way twice")
	}
	nonce := make([]byte, 12)
	if got, err := r.Decrypt(t.Context(), kid, gcm.Seal(nonce, nonce, text, []byte(kid))); err != nil || !bytes.Equal(got, text) {
		t.Errorf("Decrypt() of what was sealed by hand = %q, %v", got, err)
	}
	for _, shown := range []string{fmt.Sprintf("%+v", r), fmt.Sprintf("%#v", r)} {
		for _, key := range []string{hex.EncodeToString(dek), strings.Trim(fmt.Sprint(dek), "[]"),
			strings.Trim(fmt.Sprintf("%#v", dek), "[]byte{}")} {
			if strings.Contains(shown, key) {
				t.Error("the ring prints its data encryption key")
			}
		}
	}
}

func TestVariablesOfOtherKeys(t *testing.T) {
	r := keyring.New(keyring.Config{})
	one, two := newKey(t, r), newKey(t, r)
	add(t, r, one)
	data, err := r.Encrypt(t.Context(), one.KeyID, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	retired := *one
	retired.State = rootkey.Rekeying
	add(t, r, &retired)
	add(t, r, two)
	if got, err := r.Decrypt(t.Context(), one.KeyID, data); err != nil || string(got) != "x" {
		t.Errorf("Decrypt() by the key before = %q, %v", got, err)
	}
	altered := bytes.Clone(data)
	altered[len(altered)-1] ^= 1
	for name, c := range map[string]struct {
		kid  string
		data []byte
	}{"other key": {two.KeyID, data}, "altered": {one.KeyID, altered}, "cut": {one.KeyID, data[:5]}, "nothing": {one.KeyID, nil}} {
		if _, err := r.Decrypt(t.Context(), c.kid, c.data); !errors.Is(err, keyring.ErrUndecryptable) {
			t.Errorf("%s: Decrypt() = %v", name, err)
		}
	}
	r.Remove(one.KeyID)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Decrypt(ctx, one.KeyID, data); !errors.Is(err, keyring.ErrUnknownKey) {
		t.Errorf("Decrypt() by a key that was removed = %v", err)
	}
}

func TestDecryptWaitsForItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far, near := keyring.New(keyring.Config{}), keyring.New(keyring.Config{})
		k := newKey(t, far)
		add(t, far, k)
		kid := k.KeyID
		data, err := far.Encrypt(t.Context(), kid, []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan string, 2)
		go func() {
			sealed, err := near.Encrypt(t.Context(), kid, []byte("y"))
			text, _ := far.Decrypt(t.Context(), kid, sealed)
			got <- fmt.Sprint(string(text), err)
		}()
		go func() {
			text, err := near.Decrypt(t.Context(), kid, data)
			got <- fmt.Sprint(string(text), err)
		}()
		synctest.Wait()
		add(t, near, newKey(t, near))
		synctest.Wait()
		add(t, near, k)
		if one, two := <-got, <-got; one+two != "x<nil>y<nil>" && one+two != "y<nil>x<nil>" {
			t.Errorf("after the key was added: %s, %s", one, two)
		}
	})
}
