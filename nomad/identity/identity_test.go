package identity_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/open-nomad/open-nomad/internal/jwt"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/message"
)

var now = time.Unix(1_000_000, 0)

// issuer is an identity.Issuer with its signing key.
type issuer struct {
	*identity.Issuer
	key  jwt.Key
	ring *keyring.Ring
}

func newIssuer(t testing.TB, url string) issuer {
	t.Helper()
	ring := keyring.New(keyring.Config{})
	k, err := ring.NewRootKey(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	if err := ring.Add(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	key, err := ring.Signer(k.KeyID)
	if err != nil {
		t.Fatal(err)
	}
	return issuer{identity.New(identity.Config{Ring: ring, Region: "global", URL: url}), key, ring}
}

var (
	alloc = &nomad.Allocation{ID: "a1", Namespace: "team", TaskGroup: "grp"}
	job   = &nomad.Job{ID: "web", Region: "eu", Namespace: "team"}
	node  = &nomad.Node{ID: "n1", NodePool: "gpu", NodeClass: "big", Datacenter: "dc1",
		Attributes: map[string]string{"nomad.version": "2.0.0"}}
)

// payload returns the JSON payload of a token.
func payload(t *testing.T, token idtoken.Token) map[string]any {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(token.Reveal(), ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestClaims(t *testing.T) {
	i := newIssuer(t, "https://nomad.example")
	child := &nomad.Job{ID: "web/dispatch-1", ParentID: "web", Dispatched: true, Region: "eu"}
	wid := func(name string, ttl time.Duration, aud ...string) *nomad.WorkloadIdentity {
		return &nomad.WorkloadIdentity{Name: name, TTL: ttl, Audience: aud}
	}
	levels := *alloc
	levels.Isolation = map[string]string{"main": "restricted", "low": "host"}
	isolated := &levels
	base := map[string]any{"iss": "https://nomad.example", "iat": 1e6, "nbf": 1e6}
	for name, c := range map[string]struct {
		claims *idtoken.Claims
		want   map[string]any
	}{
		"task": {
			i.Workload(identity.Subject{Alloc: alloc, Job: job, Handle: message.WIHandle{WorkloadIdentifier: "main"},
				Identity: wid("default", 0, "nomadproject.io")}, now),
			map[string]any{"nomad_namespace": "team", "nomad_job_id": "web", "nomad_allocation_id": "a1", "nomad_task": "main",
				"aud": "nomadproject.io", "sub": "eu:team:web:grp:main:default"},
		},
		"dispatched child": {
			i.Workload(identity.Subject{Alloc: alloc, Job: child, Handle: message.WIHandle{WorkloadIdentifier: "main"},
				Identity: wid("aws", time.Hour, "a", "nomadproject.io")}, now),
			map[string]any{"nomad_namespace": "team", "nomad_job_id": "web", "nomad_allocation_id": "a1", "nomad_task": "main",
				"aud": []any{"a", "nomadproject.io"}, "sub": "eu:team:web:grp:main:aws", "exp": 1e6 + 3600},
		},
		"service": {
			i.Workload(identity.Subject{Alloc: alloc, Job: job, Identity: wid("consul", 0),
				Handle: message.WIHandle{WorkloadIdentifier: "s-${x}", WorkloadType: message.WorkloadTypeService,
					InterpolatedWorkloadIdentifier: "s-1"}}, now),
			map[string]any{"nomad_namespace": "team", "nomad_job_id": "web", "nomad_allocation_id": "a1", "nomad_service": "s-1",
				"sub": "eu:team:web:grp:s-${x}:consul"},
		},
		"with claims of the namespace": {
			i.Workload(identity.Subject{Alloc: alloc,
				Job:    &nomad.Job{ID: "web", Region: "eu", NodePool: "gpu", Meta: map[string]string{"team": "blue"}},
				Handle: message.WIHandle{WorkloadIdentifier: "main"}, Node: node,
				Identity: &nomad.WorkloadIdentity{Name: "x", ExtraClaims: []string{"where", "unknown"}},
				Namespace: &nomad.Namespace{
					RequiredExtraClaims: map[string]string{"who": "${job.namespace}/${job.id}/${group.name}/${task.name}", "plain": "$x {y}"},
					OptionalExtraClaims: map[string]string{"where": "${node.id}@${node.datacenter} ${job.meta.team} ${job.meta.none} ${vault.role}|${else}", "unlisted": "x"},
				}}, now),
			map[string]any{"nomad_namespace": "team", "nomad_job_id": "web", "nomad_allocation_id": "a1", "nomad_task": "main",
				"sub": "eu:team:web:grp:main:x", "extra_claims": map[string]any{"who": "team/web/grp/main", "plain": "$x {y}",
					"where": "n1@dc1 blue ${job.meta.none} |${else}"}},
		},
		"with the digests of artifacts": {
			i.Workload(identity.Subject{Alloc: alloc, Job: job, Handle: message.WIHandle{WorkloadIdentifier: "main"},
				Identity: &nomad.WorkloadIdentity{Name: "x"}, Digests: map[string]string{"local/b": "02", "local/a": "01"},
				Namespace: &nomad.Namespace{RequiredExtraClaims: map[string]string{"from": "${artifact.digests}"}}}, now),
			map[string]any{"nomad_namespace": "team", "nomad_job_id": "web", "nomad_allocation_id": "a1", "nomad_task": "main",
				"sub": "eu:team:web:grp:main:x", "extra_claims": map[string]any{"from": `{"local/a":"01","local/b":"02"}`}},
		},
		"with the isolation level": {
			i.Workload(identity.Subject{Alloc: isolated, Job: job, Handle: message.WIHandle{WorkloadIdentifier: "main"},
				Identity: &nomad.WorkloadIdentity{Name: "x", Isolation: true}}, now),
			map[string]any{"nomad_namespace": "team", "nomad_job_id": "web", "nomad_allocation_id": "a1", "nomad_task": "main",
				"sub": "eu:team:web:grp:main:x", "nomad_isolation": "restricted"},
		},
		"with the isolation level, by the namespace, without one": {
			i.Workload(identity.Subject{Alloc: isolated, Job: job, Handle: message.WIHandle{WorkloadIdentifier: "other"},
				Identity: &nomad.WorkloadIdentity{Name: "x"}, Namespace: &nomad.Namespace{Isolation: &nomad.NamespaceIsolation{Claim: true}}}, now),
			map[string]any{"nomad_namespace": "team", "nomad_job_id": "web", "nomad_allocation_id": "a1", "nomad_task": "other",
				"sub": "eu:team:web:grp:other:x", "nomad_isolation": "none"},
		},
		"no isolation level without a request": {
			i.Workload(identity.Subject{Alloc: isolated, Job: job, Handle: message.WIHandle{WorkloadIdentifier: "main"},
				Identity: &nomad.WorkloadIdentity{Name: "x"}, Namespace: &nomad.Namespace{}}, now),
			map[string]any{"nomad_namespace": "team", "nomad_job_id": "web", "nomad_allocation_id": "a1", "nomad_task": "main",
				"sub": "eu:team:web:grp:main:x"},
		},
		"lowest isolation level for a service": {
			i.Workload(identity.Subject{Alloc: isolated,
				Job: &nomad.Job{ID: "web", Region: "eu",
					TaskGroups: []*nomad.TaskGroup{{Name: "grp", Tasks: []*nomad.Task{{Name: "main"}, {Name: "low"}}}}},
				Identity: &nomad.WorkloadIdentity{Name: "x", Isolation: true},
				Handle:   message.WIHandle{WorkloadIdentifier: "s", WorkloadType: message.WorkloadTypeService}}, now),
			map[string]any{"nomad_namespace": "team", "nomad_job_id": "web", "nomad_allocation_id": "a1", "nomad_service": "s",
				"sub": "eu:team:web:grp:s:x", "nomad_isolation": "host"},
		},
		"node": {
			i.Node(node, time.Hour, now),
			map[string]any{"nomad_node_id": "n1", "nomad_node_pool": "gpu", "nomad_node_class": "big", "nomad_node_datacenter": "dc1",
				"aud": "nomadproject.io", "sub": "node:global:gpu:n1:default", "exp": 1e6 + 3600},
		},
		"node without a TTL": {
			i.Node(&nomad.Node{ID: "n1"}, 0, now),
			map[string]any{"nomad_node_id": "n1", "aud": "nomadproject.io", "sub": "node:global::n1:default", "exp": 1e6 + 86400},
		},
		"introduction": {
			i.Introduction(&idtoken.NodeIntroductionIdentityClaims{NodePool: "gpu"}, time.Minute, now),
			map[string]any{"nomad_node_pool": "gpu", "nomad_node_name": "", "aud": "nomadproject.io",
				"sub": "node-introduction:global:gpu::default", "exp": 1e6 + 60},
		},
	} {
		t.Run(name, func(t *testing.T) {
			token, err := i.Mint(t.Context(), c.claims)
			if err != nil {
				t.Fatal(err)
			}
			got := payload(t, token)
			if id, _ := got["jti"].(string); !nomad.IsUUID(id) {
				t.Errorf("jti is %q", id)
			}
			delete(got, "jti")
			for k, v := range base {
				c.want[k] = v
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("claims are\n%v, want\n%v", got, c.want)
			}
			if token.KeyID() != i.key.ID || strings.Contains(fmt.Sprint(token), "eyJ") {
				t.Errorf("token prints as %v", token)
			}
			_, err = i.Verify(token.Reveal(), now)
			ours := strings.Contains(fmt.Sprint(c.want["aud"]), "nomadproject.io") || c.want["aud"] == nil
			if (err == nil) != ours {
				t.Errorf("Verify() = %v", err)
			}
		})
	}
}

func TestVerifyRejects(t *testing.T) {
	i := newIssuer(t, "https://nomad.example")
	good := func() map[string]any {
		return map[string]any{"nomad_node_id": "n1", "nomad_node_pool": "gpu", "aud": "nomadproject.io",
			"exp": now.Unix() + 60, "nbf": now.Unix(), "iat": now.Unix()}
	}
	task := func() map[string]any {
		return map[string]any{"nomad_namespace": "x", "nomad_job_id": "j", "nomad_allocation_id": "a", "nomad_task": "t",
			"nbf": now.Unix(), "iat": now.Unix()}
	}
	for name, c := range map[string]struct {
		claims map[string]any
		set    map[string]any
		ok     bool
	}{
		"good node":                       {claims: good(), ok: true},
		"good task without end":           {claims: task(), ok: true},
		"node without end":                {claims: good(), set: map[string]any{"exp": nil}},
		"node with end zero":              {claims: good(), set: map[string]any{"exp": 0}},
		"end after the year 9999":         {claims: good(), set: map[string]any{"exp": 1 << 60}},
		"without a beginning":             {claims: task(), set: map[string]any{"nbf": nil}},
		"without the time of making":      {claims: task(), set: map[string]any{"iat": nil}},
		"end before 1970":                 {claims: task(), set: map[string]any{"exp": -5}},
		"expired":                         {claims: good(), set: map[string]any{"exp": now.Unix() - 61}},
		"expired within the clocks":       {claims: good(), set: map[string]any{"exp": now.Unix() - 59}, ok: true},
		"not yet":                         {claims: good(), set: map[string]any{"nbf": now.Unix() + 61}},
		"not yet within the clocks":       {claims: good(), set: map[string]any{"nbf": now.Unix() + 60}, ok: true},
		"made in the future":              {claims: good(), set: map[string]any{"iat": now.Unix() + 61}},
		"another issuer":                  {claims: good(), set: map[string]any{"iss": "https://evil.example"}},
		"our issuer":                      {claims: good(), set: map[string]any{"iss": "https://nomad.example"}, ok: true},
		"another audience":                {claims: task(), set: map[string]any{"aud": "vault.example"}},
		"audience that begins like ours":  {claims: task(), set: map[string]any{"aud": "nomadproject.io.evil.example"}},
		"audience with ours in a list":    {claims: task(), set: map[string]any{"aud": []string{"x", "nomadproject.io"}}, ok: true},
		"audience is a number":            {claims: task(), set: map[string]any{"aud": 5}},
		"end is text":                     {claims: good(), set: map[string]any{"exp": "9999999999"}},
		"two kinds":                       {claims: good(), set: map[string]any{"nomad_namespace": "default"}},
		"node and introduction":           {claims: good(), set: map[string]any{"nomad_node_name": ""}},
		"no kind":                         {claims: map[string]any{"sub": "x"}},
		"pool alone is no kind":           {claims: map[string]any{"nomad_node_pool": "gpu", "exp": now.Unix() + 60}},
		"introduction without end":        {claims: map[string]any{"nomad_node_pool": "gpu", "nomad_node_name": ""}},
		"names in upper case":             {claims: good(), set: map[string]any{"NOMAD_NODE_ID": "n2"}},
		"workload claims in a node token": {claims: good(), set: map[string]any{"extra_claims": map[string]string{}}},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.set {
				if v == nil {
					delete(c.claims, k)
					continue
				}
				c.claims[k] = v
			}
			raw, err := i.key.Sign(c.claims)
			if err != nil {
				t.Fatal(err)
			}
			claims, err := i.Verify(raw, now)
			if (err == nil) != c.ok {
				t.Fatalf("Verify() = %v, want ok %t", err, c.ok)
			}
			if err != nil && !errors.Is(err, jwt.ErrInvalid) {
				t.Errorf("Verify() = %v, does not wrap ErrInvalid", err)
			}
			if expired := errors.Is(err, identity.ErrExpired); expired != (name == "expired") || expired &&
				(claims == nil || claims.NodeID != "n1") {
				t.Errorf("Verify() = %v, %v", claims, err)
			} else if expired && !errors.Is(err, apierror.ErrIdentityExpired) {
				t.Error("ErrExpired is not nomad.ErrIdentityExpired")
			}
		})
	}
}

// A workload token for another audience is rejected, unless the operator accepts any audience. A
// node token for another audience is always rejected.
func TestAnyAudience(t *testing.T) {
	i := newIssuer(t, "")
	lenient := identity.New(identity.Config{Ring: i.ring, Region: "global", AnyAudience: true})
	for name, c := range map[string]struct {
		claims *idtoken.Claims
		ok     bool
	}{
		"workload": {i.Workload(identity.Subject{Alloc: alloc, Job: job,
			Identity: &nomad.WorkloadIdentity{Name: "x", Audience: []string{"vault.example"}}}, now), true},
		"node": {i.Node(node, time.Hour, now), false},
	} {
		c.claims.Audience = idtoken.Audience{"vault.example"}
		token, err := i.Mint(t.Context(), c.claims)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.Verify(token.Reveal(), now); !errors.Is(err, jwt.ErrInvalid) {
			t.Errorf("%s: Verify() = %v", name, err)
		}
		if _, err := lenient.Verify(token.Reveal(), now); (err == nil) != c.ok {
			t.Errorf("%s: with any audience Verify() = %v", name, err)
		}
	}
}

func TestVerifyUnknownKey(t *testing.T) {
	i, other := newIssuer(t, ""), newIssuer(t, "")
	token, err := other.Mint(t.Context(), other.Node(node, time.Hour, now))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Verify(token.Reveal(), now); !errors.Is(err, jwt.ErrUnknownKey) {
		t.Errorf("Verify() = %v", err)
	}
	own, err := i.Mint(t.Context(), i.Node(node, time.Hour, now))
	if err != nil {
		t.Fatal(err)
	}
	i.ring.Remove(i.key.ID)
	if _, err := i.Verify(own.Reveal(), now); !errors.Is(err, jwt.ErrUnknownKey) {
		t.Errorf("Verify() = %v after the key was removed", err)
	}
}

// A cached token is rejected after its expiration or the removal of its key, and the cache is
// bounded.
func TestVerifySeen(t *testing.T) {
	i := newIssuer(t, "")
	mint := func(n int) string {
		token, err := i.Mint(t.Context(), i.Node(&nomad.Node{ID: fmt.Sprint("n", n), NodePool: "p"}, time.Hour, now))
		if err != nil {
			t.Fatal(err)
		}
		return token.Reveal()
	}
	raw := mint(0)
	for range 2 {
		if c, err := i.Verify(raw, now); err != nil || c.NodeID != "n0" {
			t.Fatalf("Verify() = %v, %v", c, err)
		}
	}
	if _, err := i.Verify(raw, now.Add(-2*time.Minute)); !errors.Is(err, jwt.ErrInvalid) {
		t.Errorf("before its expiration: Verify() = %v", err)
	}
	if c, err := i.Verify(raw, now.Add(2*time.Hour)); !errors.Is(err, identity.ErrExpired) || c == nil {
		t.Errorf("after its expiration: Verify() = %v, %v", c, err)
	}
	if _, err := i.Verify(raw+"A", now); !errors.Is(err, jwt.ErrInvalid) {
		t.Errorf("altered: Verify() = %v", err)
	}
	if testing.AllocsPerRun(10, func() { i.Verify(raw, now) }) > 0 {
		t.Error("a cached token is decoded again")
	}
	for n := range 9000 {
		if _, err := i.Verify(mint(n), now); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	i.Verify(raw, now)
	if runtime.ReadMemStats(&after); after.Mallocs-before.Mallocs < 20 {
		t.Error("a token that was not used for long is still cached")
	}
	i.ring.Remove(i.key.ID)
	if _, err := i.Verify(raw, now); !errors.Is(err, jwt.ErrUnknownKey) {
		t.Errorf("without its key: Verify() = %v", err)
	}
}

// Token times are whole seconds. A short token lives at least as long as requested, a longer one at
// most as long.
func TestShortLife(t *testing.T) {
	i := newIssuer(t, "")
	late := now.Truncate(time.Second).Add(900 * time.Millisecond)
	for ttl, want := range map[time.Duration]int64{time.Second: 2, 2500 * time.Millisecond: 4, 5 * time.Second: 5, time.Hour: 3600} {
		c := i.Workload(identity.Subject{Alloc: alloc, Job: job, Identity: &nomad.WorkloadIdentity{Name: "x", TTL: ttl}}, late)
		if got := c.Expiry - c.IssuedAt; got != want {
			t.Errorf("ttl %v: from iat to exp are %d s, want %d", ttl, got, want)
		}
	}
}

func TestMintWaitsForKey(t *testing.T) {
	i := identity.New(identity.Config{Ring: keyring.New(keyring.Config{}), Region: "global"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := i.Mint(ctx, i.Node(node, time.Hour, now)); !errors.Is(err, keyring.ErrNoKey) {
		t.Errorf("Mint() = %v, want ErrNoKey", err)
	}
	if _, err := i.MintAll(ctx, []*idtoken.Claims{i.Node(node, time.Hour, now)}); !errors.Is(err, keyring.ErrNoKey) {
		t.Errorf("MintAll() = %v, want ErrNoKey", err)
	}
}

func TestMintAll(t *testing.T) {
	i := newIssuer(t, "")
	var claims []*idtoken.Claims
	for n := range 100 {
		claims = append(claims, i.Node(&nomad.Node{ID: fmt.Sprint("n", n)}, time.Hour, now))
	}
	tokens, err := i.MintAll(t.Context(), claims)
	if err != nil || len(tokens) != len(claims) {
		t.Fatalf("MintAll() = %d tokens, %v", len(tokens), err)
	}
	for n, token := range tokens {
		if got := payload(t, token)["nomad_node_id"]; got != claims[n].NodeID {
			t.Errorf("token %d is for %v", n, got)
		}
	}
	if none, err := i.MintAll(t.Context(), nil); err != nil || none != nil {
		t.Errorf("MintAll() of no claims = %v, %v", none, err)
	}
	claims[50] = &idtoken.Claims{}
	if some, err := i.MintAll(t.Context(), claims); err == nil || some != nil {
		t.Errorf("MintAll() with a bad one = %d tokens, %v", len(some), err)
	}
	endless := i.Node(node, time.Hour, now)
	endless.Expiry = 0
	if _, err := i.Mint(t.Context(), endless); err == nil {
		t.Error("a node identity without expiration time is signed")
	}
}

// TestPublished verifies a token like an external service: with the published keys and the standard
// library.
func TestPublished(t *testing.T) {
	i := newIssuer(t, "https://nomad.example")
	token, err := i.Mint(t.Context(), i.Node(node, time.Hour, now))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(i.JWKS())
	if err != nil {
		t.Fatal(err)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(text, &set); err != nil || len(set.Keys) != 1 {
		t.Fatalf("JWKS() = %s, %v", text, err)
	}
	raw := token.Reveal()
	end := strings.LastIndexByte(raw, '.')
	sig, err := base64.RawURLEncoding.DecodeString(raw[end+1:])
	if err != nil {
		t.Fatal(err)
	}
	if !ed25519.Verify(set.Key(token.KeyID())[0].Key.(ed25519.PublicKey), []byte(raw[:end]), sig) {
		t.Error("the published key rejects the token")
	}
	if d := i.Discovery(); d.JWKS != "https://nomad.example/.well-known/jwks.json" {
		t.Errorf("Discovery() = %+v", d)
	}
	if d := newIssuer(t, "").Discovery(); d != nil {
		t.Errorf("Discovery() without an issuer = %+v", d)
	}
}

func BenchmarkMintAll(b *testing.B) {
	i := newIssuer(b, "")
	claims := make([]*idtoken.Claims, 1000)
	for n := range claims {
		claims[n] = i.Workload(identity.Subject{Alloc: alloc, Job: job, Handle: message.WIHandle{WorkloadIdentifier: "main"},
			Identity: &nomad.WorkloadIdentity{Name: "default"}}, now)
	}
	for b.Loop() {
		if _, err := i.MintAll(b.Context(), claims); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(claims)), "ns/token")
}

func BenchmarkVerify(b *testing.B) {
	for _, bench := range []struct {
		name   string
		before func(issuer)
	}{
		{"seen", func(issuer) {}},
		{"first", func(i issuer) { i.ring.Remove("none") }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			i := newIssuer(b, "")
			token, err := i.Mint(b.Context(), i.Node(node, time.Hour, now))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				bench.before(i)
				if _, err := i.Verify(token.Reveal(), now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMint measures a token and the raw signature.
func BenchmarkMint(b *testing.B) {
	b.Run("token", func(b *testing.B) {
		i := newIssuer(b, "")
		for b.Loop() {
			if _, err := i.Mint(b.Context(), i.Node(node, time.Hour, now)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("ed25519", func(b *testing.B) {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			b.Fatal(err)
		}
		text := make([]byte, 500)
		for b.Loop() {
			ed25519.Sign(key, text)
		}
	})
}

func TestClaimsDigests(t *testing.T) {
	i := newIssuer(t, "")
	named := &nomad.WorkloadIdentity{Name: "x", ExtraClaims: []string{"listed"}}
	for text, want := range map[string]bool{
		"${artifact.digests}": true, "a ${ artifact.digests } b": true, "${job.id} ${artifact.digests}": true,
		"artifact.digests": false, "${artifact.digest}": false, "${job.meta.artifact.digests}": false, "": false,
	} {
		for _, ns := range []*nomad.Namespace{{RequiredExtraClaims: map[string]string{"r": text}},
			{OptionalExtraClaims: map[string]string{"listed": text}}} {
			if got := i.ClaimsDigests(identity.Subject{Identity: named, Namespace: ns}); got != want {
				t.Errorf("ClaimsDigests() with %q = %v, want %v", text, got, want)
			}
		}
		unlisted := &nomad.Namespace{OptionalExtraClaims: map[string]string{"unlisted": text}}
		if i.ClaimsDigests(identity.Subject{Identity: named, Namespace: unlisted}) {
			t.Errorf("ClaimsDigests() with %q in a claim that the identity does not list = true", text)
		}
	}
	if i.ClaimsDigests(identity.Subject{Identity: named}) {
		t.Error("ClaimsDigests() without a namespace = true")
	}
}
