package testvault

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Token is the token that a Transit accepts.
const Token = "s.vault-token-canary"

// Fault is a way in which a Transit fails.
type Fault string

// The faults.
const (
	None      Fault = ""
	Down      Fault = "down"      // connections break
	Forbidden Fault = "forbidden" // 403
	Hung      Fault = "hung"      // no answer until the fault ends
	Junk      Fault = "junk"      // 200, with a useless body
	Wrong     Fault = "wrong"     // wrong plaintext
	Echo      Fault = "echo"      // 400, with the request's secrets in the answer
	NoDecrypt Fault = "nodecrypt" // 403 for decrypt only
)

// Transit is a transit engine alone. It encrypts and decrypts with keys that it makes on first use.
type Transit struct {
	http *httptest.Server

	mu       sync.Mutex
	fault    Fault
	changed  chan struct{}
	keys     map[string]cipher.AEAD
	requests int
}

// StartTransit runs a transit engine until the test ends. Clients should not retry by themselves.
func StartTransit(t testing.TB) *Transit {
	t.Helper()
	t.Setenv("VAULT_MAX_RETRIES", "0")
	v := &Transit{keys: map[string]cipher.AEAD{}, changed: make(chan struct{})}
	v.http = httptest.NewServer(v)
	t.Cleanup(func() {
		v.Set(None) // unblocks hung requests
		v.http.CloseClientConnections()
		v.http.Close()
	})
	return v
}

// Addr returns its URL.
func (v *Transit) Addr() string { return v.http.URL }

// Set sets the fault of further requests.
func (v *Transit) Set(f Fault) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fault = f
	close(v.changed)
	v.changed = make(chan struct{})
}

// Requests returns the number of encrypt and decrypt requests.
func (v *Transit) Requests() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.requests
}

// ServeHTTP implements http.Handler.
func (v *Transit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	fault, changed := v.fault, v.changed
	v.mu.Unlock()
	switch {
	case fault == Down:
		panic(http.ErrAbortHandler)
	case fault == Hung:
		select {
		case <-changed:
		case <-r.Context().Done():
		}
		return
	case fault == Forbidden || r.Header.Get("X-Vault-Token") != Token:
		failTransit(w, http.StatusForbidden, "permission denied")
		return
	case strings.HasSuffix(r.URL.Path, "/renew-self"):
		failTransit(w, http.StatusForbidden, "it cannot be renewed")
		return
	}
	var in struct{ Plaintext, Ciphertext string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		failTransit(w, http.StatusBadRequest, "no JSON")
		return
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	if len(parts) != 3 {
		failTransit(w, http.StatusNotFound, "no such path")
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.requests++
	name := r.Header.Get("X-Vault-Namespace") + "/" + parts[0] + "/" + parts[2]
	switch {
	case fault == Junk:
		fmt.Fprint(w, `{"data": {"ciphertext": 7, "plaintext": "%%"}}`)
	case fault == Echo:
		failTransit(w, http.StatusBadRequest, "you said "+in.Plaintext+in.Ciphertext+" with "+r.Header.Get("X-Vault-Token"))
	case parts[1] == "encrypt":
		v.encrypt(w, name, in.Plaintext)
	case parts[1] == "decrypt" && fault == NoDecrypt:
		failTransit(w, http.StatusForbidden, "permission denied")
	case parts[1] == "decrypt":
		v.decrypt(w, name, in.Ciphertext, fault == Wrong)
	default:
		failTransit(w, http.StatusNotFound, "no such path")
	}
}

func (v *Transit) encrypt(w http.ResponseWriter, name, plain string) {
	text, err := base64.StdEncoding.DecodeString(plain)
	if err != nil {
		failTransit(w, http.StatusBadRequest, "no base64")
		return
	}
	answerTransit(w, "ciphertext", "vault:v1:"+base64.StdEncoding.EncodeToString(v.key(name).Seal(nil, nil, text, nil)))
}

func (v *Transit) decrypt(w http.ResponseWriter, name, sealed string, wrong bool) {
	text, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sealed, "vault:v1:"))
	if err == nil {
		text, err = v.key(name).Open(nil, nil, text, nil)
	}
	if err != nil {
		failTransit(w, http.StatusBadRequest, "invalid ciphertext")
		return
	}
	if wrong {
		text[0] ^= 1
	}
	answerTransit(w, "plaintext", base64.StdEncoding.EncodeToString(text))
}

// key returns the key of a name, and makes a missing one.
func (v *Transit) key(name string) cipher.AEAD {
	if v.keys[name] == nil {
		key := make([]byte, 32)
		rand.Read(key)
		block, err := aes.NewCipher(key)
		if err != nil {
			panic("testvault: bug: " + err.Error())
		}
		if v.keys[name], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			panic("testvault: bug: " + err.Error())
		}
	}
	return v.keys[name]
}

func answerTransit(w http.ResponseWriter, key, text string) {
	_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]string{key: text}}) // fails only if the client is gone
}

func failTransit(w http.ResponseWriter, code int, text string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []string{text}}) // fails only if the client is gone
}
