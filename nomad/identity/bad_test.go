package identity_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/jwt"
	"github.com/open-nomad/open-nomad/internal/testtokens"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

// Limits on the cost of rejecting a token.
const (
	maxCPU   = time.Millisecond
	maxBytes = 64 << 10
)

// late is a time at which the test tokens have expired long ago.
var late = time.Unix(1_900_000_000, 0)

// attacked returns an issuer with an Ed25519 and an RSA key, its ring, and a token maker with both
// keys.
func attacked(t testing.TB) (*identity.Issuer, *keyring.Ring, testtokens.Maker) {
	t.Helper()
	ring := keyring.New(keyring.Config{})
	// The key is constant, so that the processes of a fuzzer can share their findings.
	seed := make([]byte, ed25519.SeedSize)
	k := &rootkey.Key{KeyID: "0d5e8c1e-7f0b-4c57-9a52-6f5f2c1f9f11", Algorithm: rootkey.EncryptionAlgorithmAES256GCM,
		State: rootkey.Active}
	wrapped, err := keyring.AEAD{}.Wrap(t.Context(), k.KeyID, seed, nil)
	if err != nil {
		t.Fatal(err)
	}
	k.WrappedKeys = []*rootkey.Wrapped{wrapped}
	r, err := ring.NewRSAKey(t.Context(), late)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []*rootkey.Key{k, r} {
		if err := ring.Add(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	_, der, err := keyring.AEAD{}.Unwrap(t.Context(), r.WrappedKeys[0])
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.ParsePKCS1PrivateKey(der)
	if err != nil {
		t.Fatal(err)
	}
	return identity.New(identity.Config{Ring: ring, Region: "global", URL: "https://nomad.example"}), ring,
		testtokens.Maker{Kid: k.KeyID, Key: ed25519.NewKeyFromSeed(seed), RSAKid: r.KeyID, RSA: private, Now: late}
}

// holders returns the claims of valid tokens of every kind, as JSON.
func holders(t testing.TB, i *identity.Issuer) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for kind, c := range map[string]*idtoken.Claims{
		"workload": i.Workload(identity.Subject{Alloc: alloc, Job: job, Handle: message.WIHandle{WorkloadIdentifier: "main"},
			Identity: &nomad.WorkloadIdentity{Name: "default", Audience: []string{nomad.IdentityDefaultAud}, TTL: time.Hour}}, late),
		"node":         i.Node(node, time.Hour, late),
		"introduction": i.Introduction(&idtoken.NodeIntroductionIdentityClaims{NodePool: "gpu"}, time.Minute, late),
		"server":       i.Server("s1", late),
	} {
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		claims := map[string]any{}
		if err := json.Unmarshal(text, &claims); err != nil {
			t.Fatal(err)
		}
		for _, time := range []string{"exp", "nbf", "iat"} {
			claims[time] = int64(claims[time].(float64))
		}
		out[kind] = claims
	}
	return out
}

// No token of the table is accepted, whatever kind it was derived from, and the cost of rejecting
// it is bounded.
func TestBadTokens(t *testing.T) {
	i, ring, m := attacked(t)
	for kind, claims := range holders(t, i) {
		t.Run(kind, func(t *testing.T) {
			m.Claims = claims
			if _, err := i.Verify(m.Good(), late); err != nil {
				t.Fatalf("the valid token is rejected: %v", err)
			}
			bad := append(m.Bad(), testtokens.Token{Name: "of another issuer", Raw: m.Sign(m.With(map[string]any{"iss": "https://evil.example"}))})
			if len(bad) < 300 {
				t.Errorf("only %d bad tokens", len(bad))
			}
			names := map[string]bool{}
			for _, b := range bad {
				if names[b.Name] {
					t.Errorf("duplicate token name %q", b.Name)
				}
				names[b.Name] = true
				c, err := i.Verify(b.Raw, late)
				if !errors.Is(err, jwt.ErrInvalid) || errors.Is(err, identity.ErrExpired) != b.Past || (c != nil) != b.Past {
					t.Errorf("%s: Verify() = %v, %v", b.Name, c, err)
				}
				if err != nil && len(err.Error()) > 200 {
					t.Errorf("%s: the error has %d bytes", b.Name, len(err.Error()))
				}
				costs(t, b.Name, func() { i.Verify(b.Raw, late) })
			}
		})
	}
	raw := m
	raw.Claims = holders(t, i)["workload"]
	ring.Remove(m.Kid)
	if _, err := i.Verify(raw.Good(), late); !errors.Is(err, jwt.ErrUnknownKey) {
		t.Errorf("after its key was removed: %v", err)
	}
}

// costs fails if fn costs more than a bad token may. The cheapest of several rounds counts, so that
// other load on the machine does not matter.
func costs(t *testing.T, name string, fn func()) {
	t.Helper()
	const rounds = 3
	cpu, bytes := time.Hour, uint64(1<<40)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range rounds {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begun := threadTime(t)
		fn()
		cpu = min(cpu, threadTime(t)-begun)
		runtime.ReadMemStats(&after)
		bytes = min(bytes, after.TotalAlloc-before.TotalAlloc)
	}
	if allowed := maxCPU * slowness; cpu > allowed {
		t.Errorf("%s: %v of CPU, more than %v", name, cpu, allowed)
	}
	if bytes > maxBytes {
		t.Errorf("%s: %d bytes allocated, more than %d", name, bytes, maxBytes)
	}
}

// threadTime returns the CPU time of this thread.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// A token with an unknown key ID is rejected without waiting: the ID may be made up.
func TestUnknownKeyIsRejectedAtOnce(t *testing.T) {
	i, _, m := attacked(t)
	m.Claims = holders(t, i)["node"]
	m.Kid = nomad.NewID()
	raw := m.Good()
	least := time.Hour
	for range 5 {
		begun := time.Now()
		if _, err := i.Verify(raw, late); !errors.Is(err, jwt.ErrUnknownKey) {
			t.Fatalf("Verify() = %v", err)
		}
		least = min(least, time.Since(begun))
	}
	if least > 5*time.Millisecond {
		t.Errorf("rejected after %v", least)
	}
}

// FuzzVerify looks for unsigned tokens that are accepted.
func FuzzVerify(f *testing.F) {
	i, _, m := attacked(f)
	for _, claims := range holders(f, i) {
		m.Claims = claims
		f.Add(m.Good())
		for _, b := range m.Bad() {
			if len(b.Raw) < 10<<10 {
				f.Add(b.Raw)
			}
		}
	}
	f.Fuzz(func(t *testing.T, raw string) {
		c, err := i.Verify(raw, late)
		if end := strings.LastIndexByte(raw, '.'); err == nil {
			// Seeds with a bad payload are signed correctly: the fuzzer may derive a valid token
			// from them.
			sig := testtokens.Text(raw[end+1:])
			if !ed25519.Verify(m.Key.Public().(ed25519.PublicKey), []byte(raw[:end]), []byte(sig)) {
				t.Errorf("Verify(%q) = %+v", raw, c)
			}
		}
		if err != nil && !errors.Is(err, jwt.ErrInvalid) {
			t.Errorf("Verify(%q) = %v, no ErrInvalid", raw, err)
		}
	})
}

// FuzzClaims signs arbitrary payloads. An accepted one has exactly one kind and is within its
// validity period.
func FuzzClaims(f *testing.F) {
	i, _, m := attacked(f)
	key := m
	for _, claims := range holders(f, i) {
		m.Claims = claims
		for _, b := range append(m.Bad(), testtokens.Token{Raw: m.Good()}) {
			parts := strings.Split(b.Raw, ".")
			if len(parts) == 3 && len(b.Raw) < 8<<10 {
				f.Add(testtokens.Text(parts[1]))
			}
		}
	}
	f.Fuzz(func(t *testing.T, body string) {
		c, err := i.Verify(key.SignText(body), late)
		if err != nil {
			return
		}
		kinds := 0
		for _, is := range []bool{c.WorkloadIdentityClaims != nil, c.NodeIdentityClaims != nil, c.NodeIntroductionIdentityClaims != nil,
			c.ServerIdentityClaims != nil} {
			if is {
				kinds++
			}
		}
		soon, past := late.Add(identity.Leeway).Unix(), late.Add(-identity.Leeway).Unix()
		switch {
		case kinds != 1:
			t.Errorf("claims of %d kinds: %q", kinds, body)
		case c.NotBefore > soon || c.IssuedAt > soon || c.NotBefore <= 0 || c.IssuedAt <= 0 || c.Expiry < 0 || c.Expiry != 0 && c.Expiry <= past:
			t.Errorf("outside of the validity period: %q", body)
		case c.Expiry == 0 && c.WorkloadIdentityClaims == nil:
			t.Errorf("no expiration time: %q", body)
		case c.Issuer != "" && c.Issuer != "https://nomad.example":
			t.Errorf("of another issuer: %q", body)
		case len(c.Audience) > 0 && !strings.Contains(strings.Join(c.Audience, "\n"), nomad.IdentityDefaultAud):
			t.Errorf("for another audience: %q", body)
		}
		if text, err := json.Marshal(c); err != nil {
			t.Errorf("%q cannot be encoded again: %v", body, err)
		} else {
			var again idtoken.Claims
			if err := json.Unmarshal(text, &again); err != nil {
				t.Errorf("%q encoded again is %s: %v", body, text, err)
			}
		}
	})
}
