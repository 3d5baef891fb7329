// Package testtokens makes tokens that must be refused, for tests: the same table is
// tried at every door of an agent, and is what the fuzz targets begin with.
//
// A Maker has the private keys of the one who is attacked: most tokens are signed
// well, so that the one thing that is wrong with each is what it is refused for.
// Maker.Good of the same claims is the control: a door that takes it, and none of
// Maker.Bad, looks at what it should.
//
// What is bad about the holder of a token (an allocation that is over, a node that
// is another one) is the business of the test: Maker.Sign signs any claims.
package testtokens

import (
	"crypto"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"time"
)

// Token is one that must be refused, and what is wrong with it.
type Token struct {
	Name string
	Raw  string
	// Past says that the token was good once: a node that is known may come back
	// with one, wherever else it is refused.
	Past bool
}

// Maker makes tokens.
type Maker struct {
	// Kid and Key sign good tokens.
	Kid string
	Key ed25519.PrivateKey
	// RSAKid is another key that verifiers know, RSA its private half; RSA may be nil
	// when they know none.
	RSAKid string
	RSA    *rsa.PrivateKey
	// Claims are those of a good token.
	Claims map[string]any
	Now    time.Time
}

// encode is base64url as tokens have it.
var encode = base64.RawURLEncoding.EncodeToString

// Good is a token that is taken.
func (m Maker) Good() string { return m.Sign(m.Claims) }

// Sign signs any claims as a good token is signed.
func (m Maker) Sign(claims map[string]any) string { return m.forge(m.header(), asJSON(claims)) }

// SignText signs any payload, one that is no JSON too, as a good token is signed.
func (m Maker) SignText(body string) string { return m.forge(m.header(), body) }

// Text is what a part of a token holds, "" when that is nothing.
func Text(part string) string {
	b, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return ""
	}
	return string(b)
}

// With returns claims of which some are set, those that are nil left out.
func (m Maker) With(set map[string]any) map[string]any {
	claims := maps.Clone(m.Claims)
	for name, v := range set {
		if claims[name] = v; v == nil {
			delete(claims, name)
		}
	}
	return claims
}

func (m Maker) header() string { return m.headerOf("EdDSA", m.Kid) }

// headerOf is a header as ours are, of any algorithm and key.
func (m Maker) headerOf(alg, kid string) string {
	return `{"alg":` + asJSON(alg) + `,"kid":` + asJSON(kid) + `,"typ":"JWT"}`
}

// also is a good header with something more.
func (m Maker) also(member string) string {
	return `{"alg":"EdDSA","kid":` + asJSON(m.Kid) + `,"typ":"JWT",` + member + `}`
}

func (m Maker) body() string { return asJSON(m.Claims) }

// input is what is signed of a token.
func input(header, body string) string { return encode([]byte(header)) + "." + encode([]byte(body)) }

// forge signs any header and any payload with the good key.
func (m Maker) forge(header, body string) string { return m.signed(input(header, body), m.Key) }

// signed adds an Ed25519 signature.
func (Maker) signed(in string, key ed25519.PrivateKey) string {
	return in + "." + encode(ed25519.Sign(key, []byte(in)))
}

// rsaSigned adds an RS256 signature.
func rsaSigned(in string, key *rsa.PrivateKey) string {
	sum := sha256.Sum256([]byte(in))
	sig, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err) // a key that a test made
	}
	return in + "." + encode(sig)
}

// mac adds an HMAC, as HS256 has it.
func mac(in string, key []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(in))
	return in + "." + encode(h.Sum(nil))
}

// asJSON is the JSON of what has one.
func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // claims that a test made
	}
	return string(b)
}
