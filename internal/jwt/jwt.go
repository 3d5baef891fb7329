// Package jwt writes and reads signed tokens: compact JWS (RFC 7515) over
// go-jose, and sets of public keys (RFC 7517).
//
// Token: base64url(header) "." base64url(payload) "." base64url(signature), at
// most 8 KiB, no padding, canonical base64. The header holds alg, kid and typ
// and nothing else. Which algorithm a token must have is a property of our
// record of the key, never of what the token says about itself: a header can
// only be refused, it is not obeyed.
//
// The package knows nothing about what a token claims, keeps no state and
// starts no goroutine.
package jwt

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// The algorithms of our keys.
const (
	EdDSA = "EdDSA"
	RS256 = "RS256"
)

// maxSize bounds a token before anything in it is looked at.
const maxSize = 8 << 10

// ErrInvalid is what every error of Parse wraps. Its causes are for the log of
// a developer; a caller gets one answer for all.
var ErrInvalid = errors.New("token is not valid")

// ErrUnknownKey means that no key has the token's key ID.
var ErrUnknownKey = fmt.Errorf("%w: unknown key ID", ErrInvalid)

// Key signs tokens. It does not print what is in it.
type Key struct {
	ID     string
	Alg    string
	signer jose.Signer
	public PublicKey
}

// NewKey returns a key that signs with an ed25519.PrivateKey as EdDSA or with an
// *rsa.PrivateKey as RS256.
func NewKey(id string, private crypto.Signer) (Key, error) {
	public, err := NewPublicKey(id, private.Public())
	if err != nil {
		return Key{}, err
	}
	opts := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", id)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(public.Alg), Key: private}, opts)
	if err != nil {
		return Key{}, fmt.Errorf("key %s: %w", id, err)
	}
	return Key{ID: id, Alg: public.Alg, signer: signer, public: public}, nil
}

// String shows the key ID only.
func (k Key) String() string { return "key(" + k.ID + ")" }

// GoString is String, so that %#v prints no key either.
func (k Key) GoString() string { return k.String() }

// Public returns the other half of the key.
func (k Key) Public() PublicKey { return k.public }

// Sign returns the compact form of a token whose payload is the JSON of payload.
// It is safe for many goroutines.
func (k Key) Sign(payload any) (string, error) {
	body, err := json.Marshal(payload)
	if err != nil {
		return "", fmt.Errorf("encode claims: %w", err)
	}
	signed, err := k.signer.Sign(body)
	if err != nil {
		return "", fmt.Errorf("sign with key %s: %w", k.ID, err)
	}
	raw, err := signed.CompactSerialize()
	if err != nil {
		return "", fmt.Errorf("serialize token: %w", err)
	}
	if len(raw) > maxSize {
		return "", fmt.Errorf("token has %d bytes, more than %d", len(raw), maxSize)
	}
	return raw, nil
}

// PublicKey verifies tokens.
type PublicKey struct {
	ID  string
	Alg string
	key crypto.PublicKey
}

// NewPublicKey returns the key that verifies what an ed25519.PublicKey or an
// *rsa.PublicKey belongs to.
func NewPublicKey(id string, public crypto.PublicKey) (PublicKey, error) {
	switch k := public.(type) {
	case ed25519.PublicKey:
		if len(k) != ed25519.PublicKeySize {
			return PublicKey{}, fmt.Errorf("key %s: an Ed25519 key has %d bytes, not %d", id, ed25519.PublicKeySize, len(k))
		}
		return PublicKey{ID: id, Alg: EdDSA, key: k}, nil
	case *rsa.PublicKey:
		return PublicKey{ID: id, Alg: RS256, key: k}, nil
	}
	return PublicKey{}, fmt.Errorf("key %s: keys of type %T do not sign tokens", id, public)
}

// Crypto returns the key itself: an ed25519.PublicKey or an *rsa.PublicKey.
func (k PublicKey) Crypto() crypto.PublicKey { return k.key }

// header is what a token says of its signature.
type header struct{ alg, kid string }

// Parse verifies a token and returns its payload and the ID of the key that
// signed it. lookup finds our record of a key.
func Parse(raw string, lookup func(kid string) (PublicKey, bool)) (payload []byte, kid string, err error) {
	if len(raw) > maxSize {
		return nil, "", fmt.Errorf("%w: more than %d bytes", ErrInvalid, maxSize)
	}
	h, err := parseHeader(raw)
	if err != nil {
		return nil, "", err
	}
	key, known := lookup(h.kid)
	if !known {
		return nil, "", ErrUnknownKey
	}
	if h.alg != key.Alg {
		return nil, "", fmt.Errorf("%w: key has another algorithm", ErrInvalid)
	}
	signed, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(key.Alg)})
	if err != nil {
		return nil, "", fmt.Errorf("%w: %v", ErrInvalid, err)
	}
	payload, err = signed.Verify(key.key)
	if err != nil {
		return nil, "", fmt.Errorf("%w: wrong signature", ErrInvalid)
	}
	if err := checkObject(payload); err != nil {
		return nil, "", fmt.Errorf("%w: payload: %v", ErrInvalid, err)
	}
	return payload, h.kid, nil
}

// parseHeader checks the outer form of a token and reads its header.
func parseHeader(raw string) (header, error) {
	var h header
	if strings.Count(raw, ".") != 2 {
		return h, fmt.Errorf("%w: not of three parts", ErrInvalid)
	}
	parts := strings.Split(raw, ".")
	decoded := make([][]byte, len(parts))
	for i, p := range parts {
		var err error
		// The decoder would pass over line ends.
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(p); err != nil || p == "" || strings.ContainsAny(p, "\r\n") {
			return h, fmt.Errorf("%w: part %d is not canonical base64url", ErrInvalid, i+1)
		}
	}
	if err := checkObject(decoded[0]); err != nil {
		return h, fmt.Errorf("%w: header: %v", ErrInvalid, err)
	}
	var fields map[string]any
	if err := json.Unmarshal(decoded[0], &fields); err != nil {
		return h, fmt.Errorf("%w: header: %v", ErrInvalid, err)
	}
	var typ string
	for name, v := range fields {
		text, ok := v.(string)
		to := map[string]*string{"alg": &h.alg, "kid": &h.kid, "typ": &typ}[name]
		if to == nil || !ok {
			return h, fmt.Errorf("%w: header has a field that our tokens do not have", ErrInvalid)
		}
		*to = text
	}
	if h.kid == "" {
		return h, fmt.Errorf("%w: missing key ID header", ErrInvalid)
	}
	if typ != "" && typ != "JWT" {
		return h, fmt.Errorf("%w: token is of another type", ErrInvalid)
	}
	return h, nil
}

// checkObject accepts one JSON object in which no object has a key twice: two
// readers could see two different tokens.
func checkObject(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	first, err := dec.Token()
	if err != nil || first != json.Delim('{') {
		return errors.New("not a JSON object")
	}
	if err := checkMembers(dec); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("something follows the JSON object")
	}
	return nil
}

// checkMembers reads to the end of the object that dec is in. Its depth is
// bounded by encoding/json.
func checkMembers(dec *json.Decoder) error {
	seen := map[string]bool{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return errors.New("broken JSON")
		}
		if seen[name.(string)] {
			return errors.New("a key stands twice")
		}
		seen[name.(string)] = true
		if err := checkValue(dec); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

// checkValue reads one value.
func checkValue(dec *json.Decoder) error {
	v, err := dec.Token()
	if err != nil {
		return errors.New("broken JSON")
	}
	switch v {
	case json.Delim('{'):
		return checkMembers(dec)
	case json.Delim('['):
		for dec.More() {
			if err := checkValue(dec); err != nil {
				return err
			}
		}
		_, err = dec.Token()
	}
	return err
}
