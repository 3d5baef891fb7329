// Package testtokens makes tokens that must be refused. Tests try the same table at every entry point
// of an agent, and fuzz targets start from it.
//
// A Maker has the private keys of the attacked server. Most tokens have a valid signature, so that each
// is refused because of a single fault. Maker.Good with the same claims is the control: an entry point
// must accept it and refuse all of Maker.Bad.
//
// Faults of a token's holder (an allocation that has ended, a different node) are up to the test:
// Maker.Sign signs any claims.
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

// Token is a token that must be refused, named for its fault.
type Token struct {
	Name string
	Raw  string
	// Past marks a token that was valid earlier: a known node may re-register with one, while all
	// other uses are refused.
	Past bool
}

// Maker makes tokens.
type Maker struct {
	// Kid and Key sign good tokens.
	Kid string
	Key ed25519.PrivateKey
	// RSAKid is another key of the verifiers, and RSA its private key; RSA may be nil if there is
	// none.
	RSAKid string
	RSA    *rsa.PrivateKey
	// Claims are the claims of a good token.
	Claims map[string]any
	Now    time.Time
}

// encode is base64url without padding.
var encode = base64.RawURLEncoding.EncodeToString

// Good returns a valid token.
func (m Maker) Good() string { return m.Sign(m.Claims) }

// Sign signs any claims correctly.
func (m Maker) Sign(claims map[string]any) string { return m.forge(m.header(), asJSON(claims)) }

// SignText signs any payload correctly, even if it is not JSON.
func (m Maker) SignText(body string) string { return m.forge(m.header(), body) }

// Text decodes a part of a token; "" if it cannot be decoded.
func Text(part string) string {
	b, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return ""
	}
	return string(b)
}

// With returns the claims with changes; nil removes a claim.
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

// headerOf returns a header with any algorithm and key ID.
func (m Maker) headerOf(alg, kid string) string {
	return `{"alg":` + asJSON(alg) + `,"kid":` + asJSON(kid) + `,"typ":"JWT"}`
}

// also returns a good header with an additional member.
func (m Maker) also(member string) string {
	return `{"alg":"EdDSA","kid":` + asJSON(m.Kid) + `,"typ":"JWT",` + member + `}`
}

func (m Maker) body() string { return asJSON(m.Claims) }

// input returns the signed part of a token.
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
		panic(err) // the key of a test
	}
	return in + "." + encode(sig)
}

// mac adds an HMAC as HS256 does.
func mac(in string, key []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(in))
	return in + "." + encode(h.Sum(nil))
}

// asJSON returns the JSON of v.
func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // the claims of a test
	}
	return string(b)
}
