package login

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// assertionTTL is the lifetime of a client assertion.
const assertionTTL = time.Minute

// maxPEM limits the size of a file with a key or a certificate.
const maxPEM = 64 << 10

// Assertion is a client assertion: the signed claims that authenticate a client to an identity
// provider.
type Assertion struct {
	Client   string
	Audience []string
	Alg      string
	Headers  map[string]string
	Now      time.Time
}

// Claims returns the claims of the assertion (RFC 7523).
func (a Assertion) Claims() map[string]any {
	return map[string]any{"iss": a.Client, "sub": a.Client, "aud": a.Audience, "jti": random(),
		"iat": a.Now.Unix(), "nbf": a.Now.Unix(), "exp": a.Now.Add(assertionTTL).Unix()}
}

// assert signs a client assertion for an auth method.
func (d *Service) assert(ctx context.Context, c *rbac.AuthMethodConfig, a *rbac.OIDCClientAssertion) (string, error) {
	out := Assertion{Client: c.OIDCClientID, Audience: a.Audience, Alg: a.KeyAlgorithm, Headers: a.ExtraHeaders, Now: d.now()}
	if len(out.Audience) == 0 {
		out.Audience = []string{c.OIDCDiscoveryURL}
	}
	var signed string
	var err error
	switch a.KeySource {
	case rbac.OIDCKeySourceNomad:
		out.Alg = cmp.Or(out.Alg, string(jose.RS256))
		signed, err = d.signer.ClientAssertion(ctx, out)
	case rbac.OIDCKeySourceClientSecret:
		out.Alg = cmp.Or(out.Alg, string(jose.HS256))
		signed, err = out.sign([]byte(cmp.Or(a.ClientSecret, c.OIDCClientSecret)), nil)
	case rbac.OIDCKeySourcePrivateKey:
		out.Alg = cmp.Or(out.Alg, string(jose.RS256))
		signed, err = out.byPrivateKey(a.PrivateKey)
	default:
		err = fmt.Errorf("unknown key source %q", a.KeySource)
	}
	if err != nil {
		return "", fmt.Errorf("sign a client assertion: %w", err)
	}
	return signed, nil
}

// sign signs with a key and adds the headers that identify it.
func (a Assertion) sign(key any, named map[jose.HeaderKey]any) (string, error) {
	opts := (&jose.SignerOptions{ExtraHeaders: named}).WithType("JWT")
	for name, v := range a.Headers {
		opts.WithHeader(jose.HeaderKey(name), v)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(a.Alg), Key: key}, opts)
	if err != nil {
		return "", fmt.Errorf("the key cannot sign with %s", a.Alg)
	}
	text, err := json.Marshal(a.Claims())
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(text)
	if err != nil {
		return "", fmt.Errorf("the key cannot sign with %s", a.Alg)
	}
	return signed.CompactSerialize()
}

// byPrivateKey signs with the operator's key.
func (a Assertion) byPrivateKey(k *rbac.OIDCClientAssertionKey) (string, error) {
	if k == nil {
		return "", errors.New("the private key is missing")
	}
	private, err := privateKey(k)
	if err != nil {
		return "", err
	}
	named, err := keyHeader(k)
	if err != nil {
		return "", err
	}
	return a.sign(private, named)
}

// privateKey reads an RSA key in PEM. Its errors contain no part of the key.
func privateKey(k *rbac.OIDCClientAssertionKey) (*rsa.PrivateKey, error) {
	text, err := pemText(k.PemKey, k.PemKeyFile)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("the private key is not in PEM")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, checkKey(key.Public())
	}
	any, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the private key is neither PKCS #1 nor PKCS #8")
	}
	key, ok := any.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("the private key is not an RSA key")
	}
	return key, checkKey(crypto.PublicKey(key.Public()))
}

// keyHeader returns the header that identifies the key, as configured.
func keyHeader(k *rbac.OIDCClientAssertionKey) (map[jose.HeaderKey]any, error) {
	if k.KeyID != "" {
		return map[jose.HeaderKey]any{"kid": k.KeyID}, nil
	}
	text, err := pemText(k.PemCert, k.PemCertFile)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("the certificate is not in PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, errors.New("the certificate is invalid")
	}
	encode := base64.RawURLEncoding.EncodeToString
	long, brief := sha256.Sum256(cert.Raw), sha1.Sum(cert.Raw)
	switch header := cmp.Or(k.KeyIDHeader, rbac.OIDCClientAssertionHeaderX5tS256); header {
	case rbac.OIDCClientAssertionHeaderX5t:
		return map[jose.HeaderKey]any{jose.HeaderKey(header): encode(brief[:])}, nil
	case rbac.OIDCClientAssertionHeaderX5tS256, rbac.OIDCClientAssertionHeaderKid:
		return map[jose.HeaderKey]any{jose.HeaderKey(header): encode(long[:])}, nil
	}
	return nil, fmt.Errorf("unknown key ID header %q", k.KeyIDHeader)
}

// pemText returns text, or the contents of a file on this server if text is empty.
func pemText(text, file string) (string, error) {
	if text != "" || file == "" {
		return text, nil
	}
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not block a login
	if err != nil {
		return "", errors.New("its file cannot be opened on this server")
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.New("its file is not a regular file")
	}
	out, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	if err != nil || len(out) > maxPEM {
		return "", errors.New("its file cannot be read on this server")
	}
	return string(out), nil
}

// checkAssertion validates the configuration of client assertions.
func checkAssertion(a *rbac.OIDCClientAssertion, secret string) error {
	k := a.PrivateKey
	for name := range a.ExtraHeaders {
		if slices.Contains([]string{"", "alg", "kid", "typ", "crit", "b64", "jwk", "jku", "x5u"}, strings.ToLower(name)) {
			return fmt.Errorf("the extra header %q is reserved", name)
		}
	}
	switch {
	case a.KeySource != rbac.OIDCKeySourcePrivateKey && k != nil:
		return fmt.Errorf("a private key requires the key source %q", rbac.OIDCKeySourcePrivateKey)
	case a.KeySource != rbac.OIDCKeySourceClientSecret && a.ClientSecret != "":
		return fmt.Errorf("the client secret of an assertion requires the key source %q", rbac.OIDCKeySourceClientSecret)
	}
	switch a.KeySource {
	case rbac.OIDCKeySourceNomad:
		return oneOf(a.KeyAlgorithm, "RS256", "EdDSA")
	case rbac.OIDCKeySourceClientSecret:
		if len(cmp.Or(a.ClientSecret, secret)) < 32 {
			return errors.New("a client secret that signs assertions must have at least 32 characters")
		}
		return oneOf(a.KeyAlgorithm, "HS256", "HS384", "HS512")
	case rbac.OIDCKeySourcePrivateKey:
		if k == nil {
			return errors.New("the private key is missing")
		}
		if err := checkAssertionKey(k); err != nil {
			return err
		}
		return oneOf(a.KeyAlgorithm, "RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
	}
	return fmt.Errorf("the key source must be %q, %q or %q, not %q", rbac.OIDCKeySourceNomad, rbac.OIDCKeySourcePrivateKey,
		rbac.OIDCKeySourceClientSecret, a.KeySource)
}

// checkAssertionKey validates the operator's key, except for the contents of files, which may
// exist on other servers only.
func checkAssertionKey(k *rbac.OIDCClientAssertionKey) error {
	switch {
	case (k.PemKey == "") == (k.PemKeyFile == ""):
		return errors.New("exactly one of PemKey and PemKeyFile is required")
	case set(k.PemCert)+set(k.PemCertFile)+set(k.KeyID) != 1:
		return errors.New("exactly one of PemCert, PemCertFile and KeyID is required")
	case k.KeyID != "" && k.KeyIDHeader != "" && k.KeyIDHeader != rbac.OIDCClientAssertionHeaderKid:
		return fmt.Errorf("a KeyID requires the header kid, not %q", k.KeyIDHeader)
	}
	for _, file := range []string{k.PemKeyFile, k.PemCertFile} {
		if file != "" && !strings.HasPrefix(file, "/") {
			return errors.New("the path of a file must be absolute")
		}
	}
	if k.PemKey != "" {
		if _, err := privateKey(k); err != nil {
			return err
		}
	}
	if k.KeyID == "" && k.PemCertFile != "" {
		return oneOf(string(k.KeyIDHeader), "kid", "x5t", "x5t#S256")
	}
	_, err := keyHeader(k)
	return err
}

func set(s string) int {
	if s == "" {
		return 0
	}
	return 1
}

// oneOf accepts an empty value and the names.
func oneOf(v string, names ...string) error {
	if v == "" || slices.Contains(names, v) {
		return nil
	}
	return fmt.Errorf("%q is not one of %s", v, strings.Join(names, ", "))
}

// random returns 256 random bits as text.
func random() string {
	b := make([]byte, 32)
	rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}
