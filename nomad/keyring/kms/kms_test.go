package kms_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testvault"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/keyring/kms"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

func noEnv(string) string { return "" }

func transit(v *testvault.Transit, name string) kms.Config {
	return kms.Config{Provider: "transit", Name: name, Active: true,
		Keys: map[string]string{"address": v.Addr(), "token": testvault.Token, "key_name": "root", "mount_path": "transit/",
			"disable_renewal": "true"}}
}

func open(t testing.TB, c kms.Config) *kms.Wrapper {
	t.Helper()
	w, err := kms.New(c, noEnv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

var dek, rsa = bytes.Repeat([]byte{0x5a}, 32), bytes.Repeat([]byte{0xa5}, 1200)

// roundTrip wraps with a, encodes the result for Raft and unwraps it with b.
func roundTrip(t *testing.T, a, b *kms.Wrapper) {
	t.Helper()
	for _, part := range [][]byte{nil, rsa} {
		wrapped, err := a.Wrap(t.Context(), "id", dek, part)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := codec.Encode(wrapped)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(raw, dek) || wrapped.KeyEncryptionKey != nil || wrapped.ProviderID != a.ID() {
			t.Errorf("wrapped key is %+v", wrapped)
		}
		var back rootkey.Wrapped
		if err := codec.Decode(raw, &back); err != nil {
			t.Fatal(err)
		}
		d, r, err := b.Unwrap(t.Context(), &back)
		if err != nil || !bytes.Equal(d, dek) || !bytes.Equal(r, part) {
			t.Errorf("Unwrap() = %d and %d bytes, %v", len(d), len(r), err)
		}
	}
}

func TestTransit(t *testing.T) {
	v := testvault.StartTransit(t)
	c := transit(v, "main")
	w := open(t, c)
	if w.Provider() != "transit" || w.ID() != "transit.main" {
		t.Errorf("provider and ID are %s, %s", w.Provider(), w.ID())
	}
	roundTrip(t, w, open(t, c))
	other := transit(v, "main")
	other.Keys["namespace"] = "elsewhere"
	wrapped, err := w.Wrap(t.Context(), "id", dek, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := open(t, other).Unwrap(t.Context(), wrapped); err == nil {
		t.Error("the key of another namespace opens it")
	}
	// Unless renewal is disabled, the token is looked up first.
	delete(c.Keys, "disable_renewal")
	roundTrip(t, open(t, c), w)
}

// Each fault is an error that names the problem and no secret. After the fault ends the same
// wrapper works again.
func TestTransitFaults(t *testing.T) {
	v := testvault.StartTransit(t)
	w := open(t, transit(v, ""))
	wrapped, err := w.Wrap(t.Context(), "id", dek, nil)
	if err != nil {
		t.Fatal(err)
	}
	for fault, want := range map[testvault.Fault]string{testvault.Down: "EOF", testvault.Forbidden: "403", testvault.Hung: "no answer in time",
		testvault.Junk: "not a string", testvault.Echo: "<redacted>"} {
		t.Run(string(fault), func(t *testing.T) {
			v.Set(fault)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if fault == testvault.Hung {
				ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
			}
			defer cancel()
			_, err := w.Wrap(ctx, "id", dek, nil)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Wrap() = %v, want %q", err, want)
			}
			for _, secret := range []string{testvault.Token, base64.StdEncoding.EncodeToString(dek), "\n"} {
				if err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("the error contains %q: %v", secret, err)
				}
			}
			v.Set(testvault.None)
			if got, _, err := w.Unwrap(t.Context(), wrapped); err != nil || !bytes.Equal(got, dek) {
				t.Errorf("Unwrap() afterwards = %v", err)
			}
		})
	}
}

// A secret may be in a file, which is read again after a failure. It is redacted like one in the
// configuration.
func TestSecretInAFile(t *testing.T) {
	v := testvault.StartTransit(t)
	file := filepath.Join(t.TempDir(), "token")
	c := transit(v, "")
	c.Keys["token"] = "file://" + file
	w := open(t, c)
	if _, err := w.Wrap(t.Context(), "id", dek, nil); err == nil || !strings.Contains(err.Error(), "token: ") {
		t.Errorf("Wrap() without the file = %v", err)
	}
	for _, token := range []string{"old", testvault.Token} {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := w.Wrap(t.Context(), "id", dek, nil)
		if (err == nil) != (token == testvault.Token) {
			t.Errorf("Wrap() by token %q = %v", token, err)
		}
	}
	v.Set(testvault.Echo)
	if _, err := w.Wrap(t.Context(), "id", dek, nil); err == nil || strings.Contains(err.Error(), testvault.Token) {
		t.Errorf("Wrap() = %v", err)
	}
}

// Hanging requests are limited in number, and later requests wait for a limited time.
func TestHangingRequestsAreBounded(t *testing.T) {
	v := testvault.StartTransit(t)
	w := open(t, transit(v, ""))
	v.Set(testvault.Hung)
	var last error
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		_, last = w.Wrap(ctx, "id", dek, nil)
		cancel()
	}
	if last == nil || !strings.Contains(last.Error(), "no answer") {
		t.Errorf("Wrap() = %v", last)
	}
	v.Set(testvault.None)
	roundTrip(t, w, w)
}

// awsFake is a KMS server that "encrypts" by XOR.
func awsFake(t *testing.T) string {
	flip := func(in []byte) []byte {
		out := slices.Clone(in)
		for i := range out {
			out[i] ^= 0x33
		}
		return out
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			KeyId                     string
			Plaintext, CiphertextBlob []byte
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &in) != nil || !strings.Contains(r.Header.Get("Authorization"), "AKIDEXAMPLE/") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		out := map[string]any{"KeyId": "arn:real"}
		switch r.Header.Get("X-Amz-Target") {
		case "TrentService.Encrypt":
			out["CiphertextBlob"] = flip(in.Plaintext)
		case "TrentService.Decrypt":
			out["Plaintext"] = flip(in.CiphertextBlob)
		default:
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(out)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func awsConfig(endpoint string) kms.Config {
	return kms.Config{Provider: "awskms", Keys: map[string]string{"region": "eu-west-1", "kms_key_id": "alias/root",
		"access_key": "AKIDEXAMPLE", "secret_key": "aws-secret-canary", "endpoint": endpoint}}
}

func TestAWS(t *testing.T) {
	c := awsConfig(awsFake(t))
	roundTrip(t, open(t, c), open(t, c))
	wrapped, err := open(t, c).Wrap(t.Context(), "id", dek, nil)
	if err != nil {
		t.Fatal(err)
	}
	info := wrapped.WrappedDataEncryptionKey.KeyInfo
	if info == nil || info.KeyId != "arn:real" || info.Mechanism != 1 || len(info.WrappedKey) != 32 ||
		len(wrapped.WrappedDataEncryptionKey.Iv) != 12 {
		t.Errorf("stored is %+v", wrapped.WrappedDataEncryptionKey)
	}
}

// Stored data may come from anywhere. It must not make a server panic.
func TestHostileWrappings(t *testing.T) {
	v := testvault.StartTransit(t)
	wrappers := []*kms.Wrapper{open(t, transit(v, "")), open(t, awsConfig(awsFake(t)))}
	good := map[string]*rootkey.Wrapped{}
	for _, w := range wrappers {
		k, err := w.Wrap(t.Context(), "id", dek, rsa)
		if err != nil {
			t.Fatal(err)
		}
		good[w.ID()] = k
	}
	spoil := map[string]func(*rootkey.BlobInfo){
		"ciphertext nil": func(b *rootkey.BlobInfo) { b.Ciphertext = nil }, "short": func(b *rootkey.BlobInfo) { b.Ciphertext = []byte{1} },
		"huge":        func(b *rootkey.BlobInfo) { b.Ciphertext = make([]byte, 1<<20) },
		"client data": func(b *rootkey.BlobInfo) { b.ClientData = []int{1} },
		"client map":  func(b *rootkey.BlobInfo) { b.ClientData = map[string]any{"a": make(chan int)} },
	}
	enveloped := map[string]func(*rootkey.BlobInfo){ // transit needs none of these
		"nonce nil": func(b *rootkey.BlobInfo) { b.Iv = nil }, "long nonce": func(b *rootkey.BlobInfo) { b.Iv = make([]byte, 99) },
		"info nil": func(b *rootkey.BlobInfo) { b.KeyInfo = nil }, "info empty": func(b *rootkey.BlobInfo) { b.KeyInfo = &rootkey.KeyInfo{} },
		"mechanism":           func(b *rootkey.BlobInfo) { b.KeyInfo.Mechanism = 1 << 60 },
		"huge key":            func(b *rootkey.BlobInfo) { b.KeyInfo.WrappedKey = make([]byte, 1<<20) },
		"key of another size": func(b *rootkey.BlobInfo) { b.KeyInfo.WrappedKey = b.KeyInfo.WrappedKey[:7] },
		"purposes":            func(b *rootkey.BlobInfo) { b.KeyInfo.KeyPurposes = make([]rootkey.KeyPurpose, 1<<20) },
	}
	for _, w := range wrappers {
		all := maps.Clone(spoil)
		if w.Provider() != "transit" {
			maps.Copy(all, enveloped)
		}
		for name, f := range all {
			for _, part := range []string{"dek", "rsa"} {
				k := clone(t, good[w.ID()])
				if part == "dek" {
					f(k.WrappedDataEncryptionKey)
				} else if f(k.WrappedRSAKey); len(k.WrappedRSAKey.Ciphertext) == 0 {
					continue // without an RSA part
				}
				if d, r, err := w.Unwrap(t.Context(), k); err == nil && bytes.Equal(d, dek) && bytes.Equal(r, rsa) {
					t.Errorf("%s %s of %s: Unwrap() succeeds", part, name, w.ID())
				}
			}
		}
		if _, _, err := w.Unwrap(t.Context(), &rootkey.Wrapped{}); err == nil {
			t.Errorf("%s: valid keys are not unwrapped", w.ID())
		}
		random(t, w, good[w.ID()])
		if d, r, err := w.Unwrap(t.Context(), good[w.ID()]); err != nil || !bytes.Equal(d, dek) || !bytes.Equal(r, rsa) {
			t.Errorf("%s afterwards: %v", w.ID(), err)
		}
	}
}

func clone(t *testing.T, k *rootkey.Wrapped) *rootkey.Wrapped {
	t.Helper()
	raw, err := codec.Encode(k)
	if err != nil {
		t.Fatal(err)
	}
	var out rootkey.Wrapped
	if err := codec.Decode(raw, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// random flips bytes of records and unwraps those that still decode.
func random(t *testing.T, w *kms.Wrapper, k *rootkey.Wrapped) {
	t.Helper()
	raw, err := codec.Encode(k)
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		spoilt := slices.Clone(raw)
		for range 1 + rnd.IntN(4) {
			spoilt[rnd.IntN(len(spoilt))] = byte(rnd.Uint32())
		}
		var out rootkey.Wrapped
		if codec.Decode(spoilt, &out) == nil {
			_, _, _ = w.Unwrap(t.Context(), &out) // must return
		}
	}
}

func TestBlobsKeepEverything(t *testing.T) {
	full := &rootkey.BlobInfo{Ciphertext: []byte{1}, Iv: []byte{2}, Hmac: []byte{3}, Wrapped: true, Plaintext: []byte{4}, ValuePath: "p",
		ClientData: map[string]any{"a": "b"}, KeyInfo: &rootkey.KeyInfo{Mechanism: 1, HmacMechanism: 2, KeyId: "k", HmacKeyId: "h",
			WrappedKey: []byte{5}, Flags: 6, KeyType: 7, KeyPurposes: []rootkey.KeyPurpose{8, 9}, Key: []byte{10}, KeyEncoding: 11,
			WrappedKeyEncoding: 12}}
	back, err := kms.ThereAndBack(full)
	if err != nil || !reflect.DeepEqual(back, full) {
		t.Errorf("ThereAndBack() = %+v, %v", back, err)
	}
}

func TestComplete(t *testing.T) {
	env := map[string]string{"VAULT_ADDR": "https://env", "VAULT_TOKEN": "t", "VAULT_NAMESPACE": "ns", "VAULT_CACERT": "/ca",
		"VAULT_CLIENT_CERT": "/c",
		"VAULT_CLIENT_KEY":  "/k", "VAULT_TLS_SERVER_NAME": "sn", "AWSKMS_WRAPPER_KEY_ID": "aws", "GOOGLE_PROJECT": "p",
		"AZURE_TENANT_ID": "tenant"}
	get := func(name string) string { return env[name] }
	for _, c := range []struct {
		in   kms.Config
		want map[string]string
	}{
		{kms.Config{Provider: "transit", Keys: map[string]string{"key_name": "k"}},
			map[string]string{"key_name": "k", "address": "https://env", "token": "t", "namespace": "ns",
				"tls_ca_cert": "/ca", "tls_client_cert": "/c", "tls_client_key": "/k", "tls_server_name": "sn", "mount_path": "transit/"}},
		{kms.Config{Provider: "awskms"}, map[string]string{"kms_key_id": "aws"}},
		{kms.Config{Provider: "awskms", Keys: map[string]string{"kms_key_id": "file"}}, map[string]string{"kms_key_id": "file"}},
		{kms.Config{Provider: "gcpckms", Keys: map[string]string{"region": "r", "key_ring": "kr", "crypto_key": "ck", "credentials": "/f"}},
			map[string]string{"project": "p", "region": "r", "key_ring": "kr", "crypto_key": "ck", "credentials": "/f"}},
		{kms.Config{Provider: "azurekeyvault",
			Keys: map[string]string{"vault_name": "v", "key_name": "k", "client_id": "c", "client_secret": "s"}},
			map[string]string{"vault_name": "v", "key_name": "k", "client_id": "c", "client_secret": "s", "tenant_id": "tenant"}},
		{kms.Config{Provider: "aead", Name: "x"}, map[string]string{}},
	} {
		got, faults := c.in.Complete(get)
		if len(faults) > 0 || !maps.Equal(got.Keys, c.want) {
			t.Errorf("%v: Complete() = %v, %v", c.in, got.Keys, faults)
		}
	}
	for want, c := range map[string]kms.Config{
		"unknown provider":                  {Provider: "ocikms"},
		"nonsense: transit has no such key": {Provider: "transit", Keys: map[string]string{"key_name": "k", "nonsense": "s3cret"}},
		"key_name: must be set":             {Provider: "transit"},
		"kms_key_id: must be set, here or with AWSKMS_WRAPPER_KEY_ID": {Provider: "awskms"},
		"crypto_key: must be set":                                     {Provider: "gcpckms"},
		"vault_name: must be set":                                     {Provider: "azurekeyvault"},
		"tls_skip_verify: must be true or false": {Provider: "transit",
			Keys: map[string]string{"key_name": "k", "tls_skip_verify": "s3cret"}},
		"access_key and secret_key must both be set": {Provider: "awskms", Keys: map[string]string{"kms_key_id": "k", "access_key": "s3cret"}},
		"name: must be a name without spaces":        {Provider: "aead", Name: "a b"},
		"key: aead has no such key":                  {Provider: "aead", Keys: map[string]string{"key": "s3cret"}},
	} {
		_, faults := c.Complete(noEnv)
		text := ""
		for _, f := range faults {
			text += f.Key + ": " + f.Text + "\n"
		}
		if !strings.Contains(text, want) || strings.Contains(text, "s3cret") {
			t.Errorf("%v: Complete() = %q, want %q", c, text, want)
		}
		if _, err := kms.New(c, noEnv); err == nil {
			t.Errorf("%v: New() succeeds", c)
		}
	}
}

func TestNothingIsPrinted(t *testing.T) {
	c := kms.Config{Provider: "transit", Name: "n",
		Keys: map[string]string{"key_name": "k", "token": "s3cret", "tls_client_key": "s3cret", "unknown": "s3cret"}}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s", c, c, c, []kms.Config{c}), c.LogValue().String(), fmt.Sprint(c.Shown())} {
		if strings.Contains(text, "s3cret") {
			t.Errorf("it prints %s", text)
		}
	}
	if s := c.Shown(); s["key_name"] != "k" || s["token"] != "<redacted>" {
		t.Errorf("Shown() = %v", s)
	}
}
