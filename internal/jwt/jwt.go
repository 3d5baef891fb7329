// Package jwt writes and reads signed tokens, compact JWS (RFC 7515) over go-jose, and sets of
// public keys (RFC 7517).
//
// A token is base64url(header) "." base64url(payload) "." base64url(signature), at most 8 KiB,
// without padding, in canonical base64. The header holds alg, kid and typ and nothing else. The
// algorithm of a token is a property of our record of the key, never of the token: Parse refuses a
// header that differs.
//
// The package does not interpret claims, keeps no state and starts no goroutine.
package jwt

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// The algorithms of our keys.
const (
	EdDSA = "EdDSA"
	RS256 = "RS256"
)

// The header parameter of the token type, and its value in ordinary tokens.
const (
	typeHeader  = "typ"
	defaultType = "JWT"
)

// Limits of a token: its size, the size of its header, and the depth of its payload. The size is
// checked before anything is parsed.
const (
	maxSize   = 8 << 10
	maxHeader = 512
	maxDepth  = 8
)

// ErrInvalid is wrapped by every error of Parse. The causes are for a developer's log; callers
// return one answer for all.
var ErrInvalid = errors.New("token is not valid")

// ErrUnknownKey means that no key has the token's key ID.
var ErrUnknownKey = fmt.Errorf("%w: unknown key ID", ErrInvalid)

var errTwice = errors.New("duplicate key")

// Key signs tokens. It does not print its private key.
type Key struct {
	ID     string
	Alg    string
	signer jose.Signer
	with   func(headers map[string]string) (jose.Signer, error)
	public PublicKey
}

// NewKey returns a key that signs with an ed25519.PrivateKey as EdDSA or with an
// *rsa.PrivateKey as RS256.
func NewKey(id string, private crypto.Signer) (Key, error) {
	public, err := NewPublicKey(id, private.Public())
	if err != nil {
		return Key{}, err
	}
	with := func(headers map[string]string) (jose.Signer, error) {
		opts := (&jose.SignerOptions{}).WithType(defaultType).WithHeader("kid", id)
		for name, v := range headers {
			opts.WithHeader(jose.HeaderKey(name), v)
		}
		return jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(public.Alg), Key: private}, opts)
	}
	signer, err := with(nil)
	if err != nil {
		return Key{}, fmt.Errorf("key %s: %w", id, err)
	}
	return Key{ID: id, Alg: public.Alg, signer: signer, with: with, public: public}, nil
}

// String returns the key ID only.
func (k Key) String() string { return "key(" + k.ID + ")" }

// Format implements fmt.Formatter as String for every verb.
func (k Key) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// LogValue implements slog.LogValuer as String.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// Public returns the public key.
func (k Key) Public() PublicKey { return k.public }

// Sign returns the compact form of a token whose payload is the JSON of payload. It is safe for
// concurrent use.
func (k Key) Sign(payload any) (string, error) { return k.sign(k.signer, payload) }

// SignWith is Sign with additional header parameters. Parse refuses such tokens.
func (k Key) SignWith(payload any, headers map[string]string) (string, error) {
	signer, err := k.with(headers)
	if err != nil {
		return "", fmt.Errorf("key %s: %w", k.ID, err)
	}
	return k.sign(signer, payload)
}

// SignAs is Sign for a token of a type other than "JWT". Parse refuses it; ParseAs with the same
// type accepts it.
func (k Key) SignAs(typ string, payload any) (string, error) {
	return k.SignWith(payload, map[string]string{typeHeader: typ})
}

func (k Key) sign(signer jose.Signer, payload any) (string, error) {
	body, err := json.Marshal(payload)
	if err != nil {
		return "", fmt.Errorf("encode claims: %w", err)
	}
	signed, err := signer.Sign(body)
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

// NewPublicKey returns the verifier for an ed25519.PublicKey or an *rsa.PublicKey.
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

// Limits of an RSA key, in bits.
const (
	minRSABits = 2048
	maxRSABits = 8192
)

// ReadPublicKey reads a key in the form that the servers publish: the 32 bytes of an Ed25519 key,
// or an RSA key as PKCS #1 DER.
func ReadPublicKey(id string, raw []byte) (PublicKey, error) {
	if len(raw) == ed25519.PublicKeySize {
		return NewPublicKey(id, ed25519.PublicKey(raw))
	}
	public, err := x509.ParsePKCS1PublicKey(raw)
	if err != nil || public.N.BitLen() < minRSABits || public.N.BitLen() > maxRSABits {
		return PublicKey{}, fmt.Errorf("key %s: not an Ed25519 key or an RSA key of %d to %d bits", id, minRSABits, maxRSABits)
	}
	return NewPublicKey(id, public)
}

// Crypto returns the ed25519.PublicKey or *rsa.PublicKey.
func (k PublicKey) Crypto() crypto.PublicKey { return k.key }

// header holds a token's alg and kid.
type header struct{ alg, kid string }

// Parse verifies a token and returns its payload and the ID of the key that signed it. Lookup
// returns our record of a key. Parse reads nothing beyond the header if the key is unknown, and
// decodes the payload only after it verified the signature.
func Parse(raw string, lookup func(kid string) (PublicKey, bool)) (payload []byte, kid string, err error) {
	return parse(raw, defaultType, lookup)
}

// ParseAs is Parse for a token of SignAs: the header must name the type.
func ParseAs(typ, raw string, lookup func(kid string) (PublicKey, bool)) (payload []byte, kid string, err error) {
	return parse(raw, typ, lookup)
}

func parse(raw, typ string, lookup func(kid string) (PublicKey, bool)) (payload []byte, kid string, err error) {
	if len(raw) > maxSize {
		return nil, "", fmt.Errorf("%w: more than %d bytes", ErrInvalid, maxSize)
	}
	head, rest, _ := strings.Cut(raw, ".")
	body, signature, ok := strings.Cut(rest, ".")
	if !ok || strings.Contains(signature, ".") {
		return nil, "", fmt.Errorf("%w: not of three parts", ErrInvalid)
	}
	h, err := parseHeader(head, typ)
	if err != nil {
		return nil, "", err
	}
	key, known := lookup(h.kid)
	if !known {
		return nil, "", ErrUnknownKey
	}
	if h.alg != key.Alg {
		return nil, "", fmt.Errorf("%w: algorithm is not that of the key", ErrInvalid)
	}
	for _, part := range []string{body, signature} {
		if _, err := decode(part); err != nil {
			return nil, "", err
		}
	}
	signed, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(key.Alg)})
	if err != nil {
		return nil, "", fmt.Errorf("%w: %v", ErrInvalid, err)
	}
	payload, err = signed.Verify(key.key)
	if err != nil {
		return nil, "", fmt.Errorf("%w: wrong signature", ErrInvalid)
	}
	if err := CheckObject(payload); err != nil {
		return nil, "", fmt.Errorf("%w: payload: %v", ErrInvalid, err)
	}
	return payload, h.kid, nil
}

// decode decodes a part of a token and accepts only its canonical encoding. The decoder of
// encoding/base64 ignores line ends.
func decode(part string) ([]byte, error) {
	out, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil || part == "" || strings.ContainsAny(part, "\r\n") {
		return nil, fmt.Errorf("%w: a part is not canonical base64url", ErrInvalid)
	}
	return out, nil
}

// parseHeader reads a header and refuses any member that our tokens do not have. Ordinary tokens
// may omit the type.
func parseHeader(part, want string) (header, error) {
	var h header
	if len(part) > maxHeader {
		return h, fmt.Errorf("%w: header of more than %d bytes", ErrInvalid, maxHeader)
	}
	text, err := decode(part)
	if err != nil {
		return h, err
	}
	var typ string
	seen := map[string]bool{}
	err = eachMember(json.NewDecoder(bytes.NewReader(text)), func(name string, value any) error {
		said, isText := value.(string)
		to := map[string]*string{"alg": &h.alg, "kid": &h.kid, typeHeader: &typ}[name]
		if to == nil || !isText || seen[name] {
			return errors.New("unexpected member")
		}
		*to, seen[name] = said, true
		return nil
	})
	switch {
	case err != nil:
		return header{}, fmt.Errorf("%w: header: %v", ErrInvalid, err)
	case h.kid == "":
		return header{}, fmt.Errorf("%w: missing key ID header", ErrInvalid)
	case typ != want && (seen[typeHeader] || want != defaultType):
		return header{}, fmt.Errorf("%w: token is of another type", ErrInvalid)
	}
	return h, nil
}

// eachMember calls fn for each member of the single object in dec, with the first token of its
// value.
func eachMember(dec *json.Decoder, fn func(name string, value any) error) error {
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return errors.New("not a JSON object")
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return errors.New("broken JSON")
		}
		value, err := dec.Token()
		if err != nil {
			return errors.New("broken JSON")
		}
		if err := fn(name.(string), value); err != nil { // encoding/json accepts string names only
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return errors.New("broken JSON")
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("data after the JSON object")
	}
	return nil
}

// CheckObject accepts one JSON object without duplicate keys, which different parsers could read
// differently, and with limited depth.
func CheckObject(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	seen := map[string]bool{}
	return eachMember(dec, func(name string, value any) error {
		if seen[name] {
			return errTwice
		}
		seen[name] = true
		return checkValue(dec, value, 1)
	})
}

// checkValue reads the rest of a value whose first token was read.
func checkValue(dec *json.Decoder, first any, depth int) error {
	if first != json.Delim('{') && first != json.Delim('[') {
		return nil
	}
	if depth >= maxDepth {
		return errors.New("nested too deep")
	}
	seen := map[string]bool{}
	for dec.More() {
		v, err := dec.Token()
		if name, is := v.(string); err == nil && is && first == json.Delim('{') {
			if seen[name] {
				return errTwice
			}
			seen[name] = true
			v, err = dec.Token()
		}
		if err != nil {
			return errors.New("broken JSON")
		}
		if err := checkValue(dec, v, depth+1); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return errors.New("broken JSON")
	}
	return nil
}
