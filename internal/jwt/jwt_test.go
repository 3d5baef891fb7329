package jwt_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/open-nomad/open-nomad/internal/jwt"
	"github.com/open-nomad/open-nomad/internal/testtokens"
)

var b64 = base64.RawURLEncoding.EncodeToString

// pair holds one key of each algorithm.
type pair struct {
	ed  ed25519.PrivateKey
	rsa *rsa.PrivateKey
	jwt.Key
	rs jwt.Key
}

func newPair(t testing.TB) pair {
	t.Helper()
	var p pair
	var err error
	p.ed = ed25519.NewKeyFromSeed([]byte("the seed that no key may show of"))
	if p.rsa, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	if p.Key, err = jwt.NewKey("ed", p.ed); err != nil {
		t.Fatal(err)
	}
	if p.rs, err = jwt.NewKey("rs", p.rsa); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p pair) lookup(kid string) (jwt.PublicKey, bool) {
	switch kid {
	case "ed":
		return p.Public(), true
	case "rs":
		return p.rs.Public(), true
	}
	return jwt.PublicKey{}, false
}

// forge signs any header and payload with the Ed25519 key.
func (p pair) forge(header, payload string) string {
	signed := b64([]byte(header)) + "." + b64([]byte(payload))
	return signed + "." + b64(ed25519.Sign(p.ed, []byte(signed)))
}

func TestRoundTrip(t *testing.T) {
	p := newPair(t)
	for _, key := range []jwt.Key{p.Key, p.rs} {
		raw, err := key.Sign(map[string]string{"sub": "x"})
		if err != nil {
			t.Fatal(err)
		}
		payload, kid, err := jwt.Parse(raw, p.lookup)
		if err != nil || kid != key.ID || string(payload) != `{"sub":"x"}` {
			t.Errorf("Parse() = %s, %s, %v", payload, kid, err)
		}
		head, _ := base64.RawURLEncoding.DecodeString(strings.Split(raw, ".")[0])
		var fields map[string]string
		if json.Unmarshal(head, &fields); len(fields) != 3 || fields["alg"] != key.Alg || fields["kid"] != key.ID || fields["typ"] != "JWT" {
			t.Errorf("header is %s", head)
		}
	}
}

// TestIndependentCheck verifies our tokens with the standard library alone, and with go-jose
// through the published key set.
func TestIndependentCheck(t *testing.T) {
	p := newPair(t)
	published, err := json.Marshal(jwt.NewJWKS([]jwt.PublicKey{p.Public(), p.rs.Public()}))
	if err != nil {
		t.Fatal(err)
	}
	x := b64(p.ed.Public().(ed25519.PublicKey))
	if want := `{"use":"sig","kty":"OKP","crv":"Ed25519","kid":"ed","alg":"EdDSA","x":"` + x +
		`"}`; !strings.Contains(string(published), want) {
		t.Errorf("key set is %s, want %s in it", published, want)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(published, &set); err != nil {
		t.Fatal(err)
	}
	for _, key := range []jwt.Key{p.Key, p.rs} {
		raw, err := key.Sign(map[string]string{"sub": "x"})
		if err != nil {
			t.Fatal(err)
		}
		signed, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{jose.EdDSA, jose.RS256})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := signed.Verify(set.Key(key.ID)[0].Key); err != nil {
			t.Errorf("go-jose: %v", err)
		}
		end := strings.LastIndexByte(raw, '.')
		sig, err := base64.RawURLEncoding.DecodeString(raw[end+1:])
		if err != nil {
			t.Fatal(err)
		}
		switch public := key.Public().Crypto().(type) {
		case ed25519.PublicKey:
			if !ed25519.Verify(public, []byte(raw[:end]), sig) {
				t.Error("crypto/ed25519 refuses the signature")
			}
		case *rsa.PublicKey:
			sum := sha256.Sum256([]byte(raw[:end]))
			if err := rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], sig); err != nil {
				t.Error(err)
			}
		}
	}
	if empty, _ := json.Marshal(jwt.NewJWKS(nil)); string(empty) != `{"keys":[]}` {
		t.Errorf("empty set is %s", empty)
	}
}

func TestBadTokens(t *testing.T) {
	p := newPair(t)
	good, err := p.Sign(map[string]string{"sub": "x"})
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	const head, body = `{"alg":"EdDSA","kid":"ed","typ":"JWT"}`, `{"sub":"x"}`
	if _, _, err := jwt.Parse(p.forge(head, body), p.lookup); err != nil {
		t.Fatalf("forge does not make good tokens: %v", err)
	}
	hs := func(alg string, key []byte) string {
		signed := b64([]byte(`{"alg":"`+alg+`","kid":"rs","typ":"JWT"}`)) + "." + b64([]byte(body))
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(signed))
		return signed + "." + b64(mac.Sum(nil))
	}
	rsPublic := x509.MarshalPKCS1PublicKey(&p.rsa.PublicKey)
	last := parts[2][len(parts[2])-1]
	cases := map[string]string{
		"empty":                      "",
		"dots":                       "..",
		"million dots":               strings.Repeat(".", 1_000_000),
		"a MiB":                      p.forge(head, `{"sub":"`+strings.Repeat("x", 1<<20)+`"}`),
		"9 KiB":                      p.forge(head, `{"sub":"`+strings.Repeat("x", 9<<10)+`"}`),
		"two parts":                  parts[0] + "." + parts[1],
		"four parts":                 good + ".x",
		"five parts":                 good + ".x.y",
		"no signature":               parts[0] + "." + parts[1] + ".",
		"no payload":                 parts[0] + ".." + parts[2],
		"padded":                     good + "==",
		"line end":                   parts[0] + "." + parts[1] + "\n." + parts[2],
		"space":                      " " + good,
		"standard base64":            parts[0] + "." + parts[1] + "." + strings.Repeat("+/", 43),
		"loose last bits":            good[:len(good)-1] + string(last+1),
		"signature of another":       parts[0] + "." + b64([]byte(`{"sub":"y"}`)) + "." + parts[2],
		"signature cut":              good[:len(good)-4],
		"alg none":                   b64([]byte(`{"alg":"none","kid":"ed"}`)) + "." + parts[1] + "." + parts[2],
		"alg None":                   b64([]byte(`{"alg":"None","kid":"ed"}`)) + "." + parts[1] + "." + b64([]byte("x")),
		"alg none, no signature":     b64([]byte(`{"alg":"none","kid":"ed"}`)) + "." + parts[1] + ".",
		"HS256 with the public key":  hs("HS256", rsPublic),
		"RS256 header, HMAC inside":  hs("RS256", rsPublic),
		"RS256 header, Ed25519 key":  p.forge(`{"alg":"RS256","kid":"ed","typ":"JWT"}`, body),
		"EdDSA header, RSA key":      p.forge(`{"alg":"EdDSA","kid":"rs","typ":"JWT"}`, body),
		"ES256":                      p.forge(`{"alg":"ES256","kid":"ed"}`, body),
		"PS256":                      p.forge(`{"alg":"PS256","kid":"rs"}`, body),
		"unknown kid":                p.forge(`{"alg":"EdDSA","kid":"other","typ":"JWT"}`, body),
		"path as kid":                p.forge(`{"alg":"EdDSA","kid":"../../ed","typ":"JWT"}`, body),
		"no kid":                     p.forge(`{"alg":"EdDSA","typ":"JWT"}`, body),
		"empty kid":                  p.forge(`{"alg":"EdDSA","kid":"","typ":"JWT"}`, body),
		"kid is a number":            p.forge(`{"alg":"EdDSA","kid":5}`, body),
		"kid is a list":              p.forge(`{"alg":"EdDSA","kid":["ed"]}`, body),
		"no alg":                     p.forge(`{"kid":"ed","typ":"JWT"}`, body),
		"alg twice":                  p.forge(`{"alg":"none","alg":"EdDSA","kid":"ed"}`, body),
		"kid twice":                  p.forge(`{"alg":"EdDSA","kid":"other","kid":"ed"}`, body),
		"kid of another case":        p.forge(`{"alg":"EdDSA","KID":"ed"}`, body),
		"another typ":                p.forge(`{"alg":"EdDSA","kid":"ed","typ":"at+jwt"}`, body),
		"jwk":                        p.forge(`{"alg":"EdDSA","kid":"ed","jwk":{"kty":"OKP","crv":"Ed25519","x":"AA"}}`, body),
		"jku":                        p.forge(`{"alg":"EdDSA","kid":"ed","jku":"http://127.0.0.1/"}`, body),
		"x5u":                        p.forge(`{"alg":"EdDSA","kid":"ed","x5u":"http://127.0.0.1/"}`, body),
		"x5c":                        p.forge(`{"alg":"EdDSA","kid":"ed","x5c":["AA"]}`, body),
		"x5t":                        p.forge(`{"alg":"EdDSA","kid":"ed","x5t":"AA"}`, body),
		"crit":                       p.forge(`{"alg":"EdDSA","kid":"ed","crit":["exp"]}`, body),
		"b64":                        p.forge(`{"alg":"EdDSA","kid":"ed","b64":false}`, body),
		"zip":                        p.forge(`{"alg":"EdDSA","kid":"ed","zip":"DEF"}`, body),
		"enc":                        p.forge(`{"alg":"dir","kid":"ed","enc":"A256GCM"}`, body),
		"p2c":                        p.forge(`{"alg":"PBES2-HS256+A128KW","kid":"ed","p2c":2000000000}`, body),
		"header is a list":           p.forge(`["EdDSA"]`, body),
		"header is no JSON":          p.forge(`{`, body),
		"two headers":                p.forge(head+head, body),
		"payload is a list":          p.forge(head, `[1]`),
		"payload is no JSON":         p.forge(head, `{"sub":`),
		"payload twice":              p.forge(head, body+body),
		"payload key twice":          p.forge(head, `{"sub":"x","sub":"y"}`),
		"payload key twice, deeper":  p.forge(head, `{"a":[{"sub":"x","sub":"y"}]}`),
		"payload key twice, escaped": p.forge(head, `{"sub":"x","\u0073ub":"y"}`),
		"JSON form":                  `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
	}
	for name, raw := range cases {
		t.Run(name, func(t *testing.T) {
			payload, kid, err := jwt.Parse(raw, p.lookup)
			if !errors.Is(err, jwt.ErrInvalid) || payload != nil || kid != "" {
				t.Errorf("Parse() = %s, %q, %v", payload, kid, err)
			}
			if err != nil && (strings.Contains(err.Error(), body) || raw != "" && strings.Contains(err.Error(), parts[2])) {
				t.Errorf("error shows the token: %v", err)
			}
		})
	}
	if _, _, err := jwt.Parse(cases["unknown kid"], p.lookup); !errors.Is(err, jwt.ErrUnknownKey) {
		t.Errorf("Parse() = %v, want ErrUnknownKey", err)
	}
}

func TestRefusedKeys(t *testing.T) {
	if _, err := jwt.NewPublicKey("x", ed25519.PublicKey("short")); err == nil {
		t.Error("a short key is accepted")
	}
	if _, err := jwt.NewPublicKey("x", "text"); err == nil {
		t.Error("text is accepted as a key")
	}
	p := newPair(t)
	if _, err := p.Sign(map[string]string{"sub": strings.Repeat("x", 9<<10)}); err == nil {
		t.Error("a token that Parse would refuse is signed")
	}
	held := struct{ key jwt.Key }{p.Key} // fmt calls no methods of unexported fields
	text, err := json.Marshal([]any{p.Key, held})
	if err != nil {
		t.Fatal(err)
	}
	shown := string(text) + slog.AnyValue(p.Key).Resolve().String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%t"} {
		shown += fmt.Sprintf(verb, p.Key) + fmt.Sprintf(verb, &p.Key) + fmt.Sprintf(verb, held) + fmt.Sprintf(verb, &held)
	}
	seed := p.ed.Seed()
	for _, form := range []string{fmt.Sprint(seed[:4]), fmt.Sprintf("%x", seed), fmt.Sprint(p.rsa.D), b64(seed)} {
		if strings.Contains(shown, strings.Trim(form, "[]")) {
			t.Errorf("key prints as %s", shown)
		}
	}
}

func FuzzParse(f *testing.F) {
	p := newPair(f)
	good, err := p.Sign(map[string]string{"sub": "x"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	m := testtokens.Maker{Kid: "ed", Key: p.ed, RSAKid: "rs", RSA: p.rsa, Claims: map[string]any{"sub": "x"}, Now: time.Unix(1_900_000_000, 0)}
	for _, bad := range m.Bad() {
		if len(bad.Raw) < 10<<10 {
			f.Add(bad.Raw)
		}
	}
	f.Fuzz(func(t *testing.T, raw string) {
		payload, kid, err := jwt.Parse(raw, p.lookup)
		if err != nil {
			if !errors.Is(err, jwt.ErrInvalid) || payload != nil || kid != "" {
				t.Errorf("Parse(%q) = %q, %q, %v", raw, payload, kid, err)
			}
			return
		}
		// An accepted token was signed by the key that it names. Header, payload and signature
		// have only one encoding.
		end := strings.LastIndexByte(raw, '.')
		sig, _ := base64.RawURLEncoding.Strict().DecodeString(raw[end+1:])
		sum := sha256.Sum256([]byte(raw[:end]))
		if kid == "ed" && !ed25519.Verify(p.ed.Public().(ed25519.PublicKey), []byte(raw[:end]), sig) ||
			kid == "rs" && rsa.VerifyPKCS1v15(&p.rsa.PublicKey, crypto.SHA256, sum[:], sig) != nil || kid != "ed" && kid != "rs" {
			t.Errorf("Parse(%q) succeeds", raw)
		}
	})
}

func BenchmarkSign(b *testing.B) {
	p := newPair(b)
	for b.Loop() {
		if _, err := p.Sign(map[string]string{"sub": "x"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	p := newPair(b)
	raw, err := p.Sign(map[string]string{"sub": "x"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, _, err := jwt.Parse(raw, p.lookup); err != nil {
			b.Fatal(err)
		}
	}
}
