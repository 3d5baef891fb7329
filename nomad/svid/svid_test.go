package svid_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/spiffe"
	"github.com/open-nomad/open-nomad/nomad/svid"
	"github.com/open-nomad/open-nomad/nomad/trustbundle"
)

const domain = "prod.example.org"

// world is a keyring with an issuer.
type world struct {
	ring   *keyring.Ring
	issuer *svid.Issuer
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{ring: keyring.New(keyring.Config{})}
	w.issuer = issuer(t, w.ring)
	return w
}

func issuer(t testing.TB, ring *keyring.Ring) *svid.Issuer {
	t.Helper()
	i, err := svid.New(svid.Config{Ring: ring, TrustDomain: domain})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// root adds a root key with a state.
func (w *world) root(t testing.TB, created time.Time, state rootkey.State) *rootkey.Key {
	t.Helper()
	k, err := w.ring.NewRootKey(context.Background(), created)
	if err != nil {
		t.Fatal(err)
	}
	w.set(t, k, state)
	return k
}

func (w *world) set(t testing.TB, k *rootkey.Key, state rootkey.State) {
	t.Helper()
	k.State = state
	if err := w.ring.Add(context.Background(), k); err != nil {
		t.Fatal(err)
	}
}

// bundle returns the bundle as an external verifier reads it from the bundle endpoint.
func bundle(t testing.TB, i *svid.Issuer) *spiffebundle.Bundle {
	t.Helper()
	all, err := i.Authorities()
	if err != nil {
		t.Fatal(err)
	}
	b, err := trustbundle.New(trustbundle.Info{Domain: i.TrustDomain(), Sequence: 7, Refresh: svid.RefreshHint}, all)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := b.Document()
	if err != nil {
		t.Fatal(err)
	}
	read, err := spiffebundle.Parse(spiffeid.RequireTrustDomainFromString(domain), doc)
	if err != nil {
		t.Fatalf("%v in %s", err, doc)
	}
	return read
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

var subject = svid.Subject{ID: "spiffe://" + domain + "/ns/default/job/web/group/g/task/t", DNS: []string{"web.svc.example.org"},
	TTL: time.Hour}

// sign returns the certificate of a new key.
func sign(t testing.TB, i *svid.Issuer, now time.Time) *x509.Certificate {
	t.Helper()
	der, err := i.SignX509(&newKey(t).PublicKey, subject, now)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

// TestX509 checks an X.509-SVID with the verifier of the SPIFFE project.
func TestX509(t *testing.T) {
	w, now := newWorld(t), time.Now()
	w.root(t, now, rootkey.Active)
	leaf := sign(t, w.issuer, now)
	id, chains, err := x509svid.Verify([]*x509.Certificate{leaf}, bundle(t, w.issuer))
	if err != nil || len(chains) == 0 || id.String() != subject.ID {
		t.Fatalf("Verify() = %v, %v", id, err)
	}
	if leaf.IsCA || leaf.KeyUsage != x509.KeyUsageDigitalSignature || len(leaf.DNSNames) != 1 || len(leaf.URIs) != 1 {
		t.Errorf("leaf is a CA: %v, usage %v, names %v %v", leaf.IsCA, leaf.KeyUsage, leaf.DNSNames, leaf.URIs)
	}
	if got := leaf.NotAfter.Sub(now); got > time.Hour || got < time.Hour-2*time.Second {
		t.Errorf("lifetime %v, want 1h", got)
	}
	other := newWorld(t)
	other.root(t, now, rootkey.Active)
	if _, _, err := x509svid.Verify([]*x509.Certificate{leaf}, bundle(t, other.issuer)); err == nil {
		t.Error("the bundle of another region verifies the SVID")
	}
}

// TestJWT checks a JWT-SVID with the verifier of the SPIFFE project, and that it is not a token of the
// cluster.
func TestJWT(t *testing.T) {
	w, now := newWorld(t), time.Now()
	w.root(t, now, rootkey.Active)
	raw, end, err := w.issuer.SignJWT(subject, []string{nomad.IdentityDefaultAud, "db"}, now)
	if err != nil {
		t.Fatal(err)
	}
	got, err := jwtsvid.ParseAndValidate(raw, bundle(t, w.issuer), []string{"db"})
	if err != nil || got.ID.String() != subject.ID || !got.Expiry.Equal(end) {
		t.Fatalf("ParseAndValidate() = %+v, %v", got, err)
	}
	if _, err := jwtsvid.ParseAndValidate(raw, bundle(t, w.issuer), []string{"other"}); err == nil {
		t.Error("another audience accepts the token")
	}
	tokens := identity.New(identity.Config{Ring: w.ring, Region: "global", AnyAudience: true})
	if c, err := tokens.Verify(raw, now); err == nil {
		t.Errorf("the cluster accepts a JWT-SVID as its token: %+v", c)
	}
	own, err := tokens.Mint(context.Background(), tokens.Server("s1", now))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := jwtsvid.ParseAndValidate(own.Reveal(), bundle(t, w.issuer), []string{nomad.IdentityDefaultAud}); err == nil {
		t.Error("a token of the cluster is a JWT-SVID")
	}
}

// TestAllServersAgree checks that another server with the same root key has the same authorities, byte
// for byte.
func TestAllServersAgree(t *testing.T) {
	w, now := newWorld(t), time.Now()
	k := w.root(t, now, rootkey.Active)
	second := &world{ring: keyring.New(keyring.Config{})}
	second.issuer = issuer(t, second.ring)
	second.set(t, k, rootkey.Active)
	a, errA := w.issuer.Authorities()
	b, errB := second.issuer.Authorities()
	if errA != nil || errB != nil || len(a) != 1 || len(b) != 1 {
		t.Fatal(errA, errB, len(a), len(b))
	}
	if !bytes.Equal(a[0].Certificate, b[0].Certificate) || !bytes.Equal(a[0].JWTKey, b[0].JWTKey) || a[0].JWTKeyID != b[0].JWTKeyID {
		t.Error("two servers with one root key have different authorities")
	}
	if _, _, err := x509svid.Verify([]*x509.Certificate{sign(t, second.issuer, now)}, bundle(t, w.issuer)); err != nil {
		t.Error(err)
	}
}

// TestRotation checks that the bundle has a new CA before it signs, and the old one as long as its root
// key exists.
func TestRotation(t *testing.T) {
	w, start := newWorld(t), time.Now().Add(-2*time.Hour)
	first := w.root(t, start, rootkey.Active)
	signedBy := func(at time.Time) string { return sign(t, w.issuer, at).Issuer.SerialNumber }
	want := func(step string, at time.Time, k *rootkey.Key, size int) {
		t.Helper()
		if got := signedBy(at); got != k.KeyID {
			t.Errorf("%s: signed by %s, want %s", step, got, k.KeyID)
		}
		if got := len(bundle(t, w.issuer).X509Authorities()); got != size {
			t.Errorf("%s: %d authorities, want %d", step, got, size)
		}
	}
	want("first key", start, first, 1)
	second := w.root(t, start.Add(time.Hour), rootkey.Prepublished)
	want("published", start.Add(time.Hour+svid.DefaultOverlap), first, 2)
	w.set(t, first, rootkey.Inactive)
	w.set(t, second, rootkey.Active)
	want("rotated at once", start.Add(time.Hour+svid.DefaultOverlap-time.Second), first, 2)
	want("overlap over", start.Add(time.Hour+svid.DefaultOverlap), second, 2)
	old := sign(t, w.issuer, start.Add(time.Hour))
	if _, _, err := x509svid.Verify([]*x509.Certificate{old}, bundle(t, w.issuer), x509svid.WithTime(start.Add(90*time.Minute))); err != nil {
		t.Errorf("SVID of the inactive key: %v", err)
	}
	w.ring.Remove(first.KeyID)
	want("first key removed", start.Add(2*time.Hour), second, 1)
	if _, _, err := x509svid.Verify([]*x509.Certificate{old}, bundle(t, w.issuer), x509svid.WithTime(start.Add(90*time.Minute))); err == nil {
		t.Error("SVID of a removed key is valid")
	}
	w.ring.Remove(second.KeyID)
	if _, err := w.issuer.SignX509(&newKey(t).PublicKey, subject, time.Now()); !errors.Is(err, svid.ErrNoAuthority) {
		t.Errorf("without keys: %v", err)
	}
}

// TestReadCSR checks that only the key of a request counts, and which keys are refused.
func TestReadCSR(t *testing.T) {
	make := func(key any) []byte {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{"evil.example.org"}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	good := make(newKey(t))
	if _, err := svid.ReadCSR(good); err != nil {
		t.Error(err)
	}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	small, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	forged := bytes.Clone(good)
	forged[len(forged)-1] ^= 1
	for name, der := range map[string][]byte{"RSA": make(weak), "P-224": make(small), "empty": nil, "garbage": []byte("x"),
		"large": bytes.Repeat([]byte{48}, 9000), "not signed with its key": forged} {
		if key, err := svid.ReadCSR(der); err == nil {
			t.Errorf("%s: accepted %v", name, key)
		}
	}
}

// TestNames checks the names in the configuration and in SPIFFE IDs.
func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{"a": true, "prod.example.org": true, "a_b-c.9": true, "": false, "Prod": false, "a/b": false,
		"a:1": false, "é": false, strings.Repeat("a", 256): false} {
		if err := spiffe.CheckTrustDomain(name); (err == nil) != ok {
			t.Errorf("CheckTrustDomain(%q) = %v", name, err)
		}
	}
	for _, bad := range []string{"", ".", "..", "a b", "a/b", "a%2Fb", "é", "a:b"} {
		if id, err := spiffe.ID(domain, &nomad.Job{ID: bad, Namespace: "default"}, "g", "t"); err == nil {
			t.Errorf("SpiffeID of job %q = %q", bad, id)
		}
	}
	child := &nomad.Job{ID: "web/dispatch-1", ParentID: "web", Namespace: "default", Dispatched: true}
	id, err := spiffe.ID(domain, child, "g", "t")
	if err != nil || id != "spiffe://prod.example.org/ns/default/job/web/group/g/task/t" {
		t.Errorf("SpiffeID of a dispatched job = %q, %v", id, err)
	}
	if _, err := spiffeid.FromString(id); err != nil {
		t.Error(err)
	}
}

// TestDerivedKeysAreNotPrinted checks that no verb prints what an issuer holds.
func TestDerivedKeysAreNotPrinted(t *testing.T) {
	w := newWorld(t)
	k := w.root(t, time.Now(), rootkey.Active)
	secret, err := w.ring.Derive(k.KeyID, "a purpose")
	if err != nil {
		t.Fatal(err)
	}
	again, _ := w.ring.Derive(k.KeyID, "a purpose")
	other, _ := w.ring.Derive(k.KeyID, "another purpose")
	if !bytes.Equal(secret, again) || bytes.Equal(secret, other) {
		t.Error("derived bytes do not depend on the purpose alone")
	}
	if text := fmt.Sprintf("%+v %#v", w.ring, w.ring); strings.Contains(text, fmt.Sprint(secret)[1:40]) {
		t.Error("the keyring prints derived bytes")
	}
}

func BenchmarkSignX509(b *testing.B) {
	w := newWorld(b)
	w.root(b, time.Now(), rootkey.Active)
	key := newKey(b)
	for b.Loop() {
		if _, err := w.issuer.SignX509(&key.PublicKey, subject, time.Now()); err != nil {
			b.Fatal(err)
		}
	}
}
